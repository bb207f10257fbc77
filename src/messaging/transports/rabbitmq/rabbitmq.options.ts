/** How the broker is reached, and what the service's part of it is called. */
export interface RabbitMqOptions {
  /** amqp:// or amqps://, with the virtual host as its path; it may carry a password, so it appears in no message. */
  readonly url: string;
  /** Begins the name of every exchange and queue: `orders` makes `orders.events`. */
  readonly prefix: string;
}
