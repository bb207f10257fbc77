import Stripe from 'stripe';
import { type HttpAnswer, HttpCaller } from './http-caller.js';

export interface StripeOptions {
  readonly secretKey: string;
  /** Scheme, host and port; undefined: Stripe's own. */
  readonly apiBase?: string;
  /** Milliseconds for each call, as a whole. */
  readonly timeout: number;
}

/**
 * The official SDK, without anything that it does behind one's back: a call is one request, with the key that it was
 * given. The version of the API is the one that this version of the SDK was made for.
 */
export function createStripe({ secretKey, apiBase, timeout }: StripeOptions): Stripe {
  return new Stripe(secretKey, {
    ...(apiBase === undefined ? {} : addressOf(new URL(apiBase))),
    httpClient: new SendOnceClient(new HttpCaller(timeout)),
    maxNetworkRetries: 0,
    telemetry: false,
  });
}

function addressOf({ protocol, hostname, port }: URL): Pick<Stripe.StripeConfig, 'host' | 'port' | 'protocol'> {
  const isTls = protocol === 'https:';
  return { host: hostname, port: port || (isTls ? 443 : 80), protocol: isTls ? 'https' : 'http' };
}

/**
 * The SDK sends a request again, once, when the connection breaks with ECONNRESET or EPIPE, even with
 * `maxNetworkRetries: 0`: a lost reply would silently become a second call. A CallFailedError carries no such code, so
 * it comes out as the `detail` of a StripeConnectionError.
 */
class SendOnceClient implements Stripe.HttpClient {
  constructor(private readonly caller: HttpCaller) {}

  getClientName(): string {
    return 'node';
  }

  /** Async, because the SDK never ends a call whose client has thrown at once. */
  async makeRequest(
    host: string,
    port: string,
    path: string,
    method: string,
    headers: Record<string, string | number | string[]>,
    body: string,
    protocol: string,
  ): Promise<Stripe.HttpClientResponse> {
    const url = new URL(`${protocol}://${host}:${port}${path}`);
    return new ReadAnswer(await this.caller.call({ method, url, headers, ...(method === 'GET' ? {} : { body }) }));
  }
}

class ReadAnswer implements Stripe.HttpClientResponse {
  constructor(private readonly answer: HttpAnswer) {}

  getStatusCode(): number {
    return this.answer.status;
  }

  getHeaders(): Record<string, string | string[]> {
    return { ...this.answer.headers };
  }

  getRawResponse(): object {
    return {};
  }

  toStream(): never {
    throw new Error('Answers are read whole');
  }

  /**
   * The SDK takes every body without `error` for a success whatever the status, forgets the status where the body is not
   * JSON, and never ends a call (and brings the process down) where it is JSON but no object. So it is given objects
   * only, and an `error` with each status that is none of success.
   */
  async toJSON(): Promise<object> {
    const { status, body } = this.answer;
    const isSuccess = status >= 200 && status < 300;
    const json = parseObject(body);
    if (isSuccess && json === undefined) throw new SyntaxError('The answer is not a JSON object');
    if (isSuccess || isObject(json?.error)) return json!;
    return { error: { message: `Status ${status} without an error that can be read` } };
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const json: unknown = JSON.parse(text);
    return isObject(json) ? json : undefined;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
