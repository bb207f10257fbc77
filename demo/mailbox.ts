import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';

/** A real mail server that takes everything and counts. */
export class Mailbox {
  private taken = 0;

  private constructor(private readonly server: SMTPServer) {}

  static async open(): Promise<Mailbox> {
    const server = new SMTPServer({
      authOptional: true,
      disabledCommands: ['STARTTLS'],
      disableReverseLookup: true,
      logger: false,
      onData: (stream, _session, done) => {
        stream.resume().on('end', () => {
          mailbox.taken += 1;
          done();
        });
      },
    });
    const mailbox = new Mailbox(server);
    server.on('error', () => undefined); // of connections whose other end was killed
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
    return mailbox;
  }

  get mails(): number {
    return this.taken;
  }

  get url(): string {
    return `smtp://127.0.0.1:${(this.server.server.address() as AddressInfo).port}`;
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.server.close(() => resolve()));
  }
}
