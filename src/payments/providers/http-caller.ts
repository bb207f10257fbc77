import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Socket } from 'node:net';

/** An answer that has arrived whole. */
export interface HttpAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[]>>;
  readonly body: string;
}

export interface HttpCall {
  readonly method: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string | number | string[]>>;
  /** Undefined: none is sent. */
  readonly body?: string;
}

/** No answer has arrived whole. It has no `code`: some libraries take one as an invitation to send again. */
export class CallFailedError extends Error {
  override readonly name = 'CallFailedError';

  constructor(
    /** False is a proof: not a byte of the request was handed to a connection. */
    readonly sent: boolean,
    readonly reason: string,
    cause?: unknown,
  ) {
    super(`The call ${sent ? 'was sent and not answered' : 'was not sent'}: ${reason}`, { cause });
  }
}

/** More than a page of a hundred payment intents, less than what hurts. */
const LONGEST_ANSWER = 8 * 1024 * 1024;
/**
 * Shorter than what servers usually allow (Node's own: 5 s), because a connection that the server closes at the moment
 * a request goes out on it leaves an outcome unknown.
 */
const IDLE_CONNECTION_MS = 4_000;

/**
 * Sends each request once. Whatever happens to it, nothing is sent again, no redirect is followed, and the deadline is
 * one for all of it: name look-up, connection, TLS, request, the last byte of the answer.
 *
 * `node:http` rather than `fetch`: of a failed `fetch` one cannot tell whether the request had been written.
 *
 * @example
 * const answer = await new HttpCaller(10_000).call({ method: 'GET', url: new URL('http://bank.example/transfers') });
 */
export class HttpCaller {
  private readonly agents = {
    http: new HttpAgent({ keepAlive: true, timeout: IDLE_CONNECTION_MS }),
    https: new HttpsAgent({ keepAlive: true, timeout: IDLE_CONNECTION_MS }),
  };

  /** @param timeout milliseconds for each call */
  constructor(private readonly timeout: number) {}

  /** @throws CallFailedError */
  call(call: HttpCall): Promise<HttpAnswer> {
    return new Promise((resolve, reject) => {
      let sent = false;
      let request: ClientRequest | undefined;
      const fail = (reason: string, cause?: unknown): void => {
        clearTimeout(deadline);
        reject(new CallFailedError(sent, reason, cause));
        request?.destroy();
      };
      const deadline = setTimeout(() => fail(`no answer within ${this.timeout} ms`), this.timeout);

      try {
        request = this.open(call);
      } catch (error) {
        fail(reasonOf(error), error); // a header that cannot be sent, such as a key with a line break in it
        return;
      }
      request.on('error', (error) => fail(reasonOf(error), error));
      // An answer that switches to another protocol ends in nothing else. After the others this changes nothing.
      request.on('close', () => fail('the connection was closed'));
      request.on('socket', (socket) => {
        whenConnected(socket, () => {
          if (request.destroyed) return;
          sent = true;
          request.end(call.body);
        });
      });
      request.on('response', (response) => {
        readWhole(response, fail, (answer) => {
          clearTimeout(deadline);
          resolve(answer);
        });
      });
    });
  }

  private open({ method, url, headers, body }: HttpCall): ClientRequest {
    const isTls = url.protocol === 'https:';
    return (isTls ? httpsRequest : httpRequest)(url, {
      method,
      agent: isTls ? this.agents.https : this.agents.http,
      // Its length is always told: a body in chunks is more than some servers expect.
      headers: { ...(body === undefined ? {} : { 'Content-Length': Buffer.byteLength(body) }), ...headers },
    });
  }
}

/**
 * Node would take the request before there is a connection, and write it as soon as there is one. Handing it over only
 * then is what makes `sent` a proof: whatever fails before has not happened, whatever fails later may have.
 */
function whenConnected(socket: Socket, send: () => void): void {
  const isTls = 'encrypted' in socket;
  const isOpen = isTls ? 'secureConnecting' in socket && socket.secureConnecting === false : !socket.connecting;
  if (isOpen) send();
  else socket.once(isTls ? 'secureConnect' : 'connect', send);
}

function readWhole(
  response: IncomingMessage,
  fail: (reason: string, cause?: unknown) => void,
  done: (answer: HttpAnswer) => void,
): void {
  const chunks: Buffer[] = [];
  let length = 0;
  response.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    length += chunk.length;
    if (length > LONGEST_ANSWER) fail(`the answer is longer than ${LONGEST_ANSWER} bytes`);
  });
  response.on('error', (error) => fail(reasonOf(error), error));
  response.on('end', () => {
    const { statusCode = 0, headers } = response;
    done({ status: statusCode, headers: headers as HttpAnswer['headers'], body: Buffer.concat(chunks).toString() });
  });
}

function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  return typeof code === 'string' ? code : String(message);
}
