import { type IncomingMessage, type RequestListener, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Socket } from 'node:net';
import { Problem, type ProblemType, problemType } from './problem.js';
import type { ProblemRenderer } from './problem-renderer.js';

const MalformedRequest = problemType({
  code: 'malformed-request',
  status: 400,
  title: 'The request is not HTTP',
  underKey: 'released',
  explanation: 'What arrived could not be read as an HTTP/1.1 request. Nothing has happened.',
  remedy: 'Check the request line, the header lines and the length of the body that were announced.',
});

const RequestTimeout = problemType({
  code: 'request-timeout',
  status: 408,
  title: 'The request did not arrive in time',
  underKey: 'released',
  explanation:
    'The request was begun and not completed within the time the service waits for it. Nothing has happened.',
  remedy: 'Send the same request again.',
});

const HeadersTooLarge = problemType({
  code: 'request-header-fields-too-large',
  status: 431,
  title: 'The headers are too large',
  underKey: 'released',
  explanation: 'The header lines are larger than the service reads. Nothing has happened.',
  remedy: 'Send fewer or shorter headers.',
});

const ExpectationFailed = problemType({
  code: 'expectation-failed',
  status: 417,
  title: 'The expectation cannot be met',
  underKey: 'released',
  explanation: 'The Expect header asks for something else than 100-continue. Nothing has happened.',
  remedy: 'Send the request without the Expect header.',
});

const BY_CODE: Readonly<Record<string, ProblemType>> = {
  HPE_HEADER_OVERFLOW: HeadersTooLarge,
  ERR_HTTP_REQUEST_TIMEOUT: RequestTimeout,
};

type ExpressListener = (request: IncomingMessage, response: ServerResponse, unserved: () => void) => void;

/**
 * Answers with problem documents what otherwise Node or Express would answer by themselves, before any middleware: what
 * the parser refuses, a request target that is no URL, HTTP/1.1 without Host (RFC 9112, section 3.2), an unknown Expect.
 */
export function answerBelowExpress(server: Server, renderer: ProblemRenderer): void {
  const pending = new PendingResponses();
  const refuse = (response: ServerResponse, type: ProblemType): void => {
    const { status, headers, body } = renderer.render(new Problem(type, type.explanation), '/');
    response.writeHead(status, { ...headers, 'Content-Length': body.length, Connection: 'close' }).end(body);
  };

  const [express] = server.listeners('request') as [ExpressListener];
  const listener: RequestListener = (request, response) => {
    pending.add(request.socket, response);
    const isNameless = request.httpVersion === '1.1' && request.headers.host === undefined;
    if (isNameless || !hasOriginForm(request)) refuse(response, MalformedRequest);
    else express(request, response, () => refuse(response, MalformedRequest));
  };
  server.removeAllListeners('request').on('request', listener);
  Object.assign(server, { requireHostHeader: false }); // looked at above: Node's own answer has no content
  server.on('checkExpectation', (_request, response) => refuse(response, ExpectationFailed));
  server.on('checkContinue', (request, response) => {
    // Behind other answers on its socket there is no socket yet: what is written now would land inside of one of them.
    if (response.socket) response.writeContinue();
    listener(request, response);
  });

  const answer = (error: NodeJS.ErrnoException, socket: Socket): void => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
      return;
    }
    // A whole request may stand before what could not be read: it is carried out, and its answer comes first.
    const earlier = pending.lastWhole(socket);
    if (earlier) {
      earlier.once('finish', () => setImmediate(answer, error, socket));
      return;
    }
    const type = BY_CODE[error.code ?? ''] ?? MalformedRequest;
    const { status, headers, body } = renderer.render(new Problem(type, type.explanation), '/');
    const lines = Object.entries({ ...headers, 'Content-Length': body.length, Connection: 'close' });
    socket.end(
      Buffer.concat([
        Buffer.from(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`),
        Buffer.from(`${lines.map(([name, value]) => `${name}: ${value}`).join('\r\n')}\r\n\r\n`),
        body,
      ]),
    );
  };
  server.on('clientError', answer);
}

/** Makes an absolute target (RFC 9112, section 3.2.2) one of origin form. `false`: it is neither. */
function hasOriginForm(request: IncomingMessage): boolean {
  const target = request.url ?? '';
  if (target.startsWith('/') || target === '*') return true;
  if (!/^https?:/i.test(target) || !URL.canParse(target)) return false;
  const { pathname, search } = new URL(target);
  request.url = pathname + search;
  return true;
}

/**
 * The responses of each socket that are not sent yet. When the socket ends, Node tells only the one whose turn it is; it
 * is passed on to those that wait behind it, or who waits for their 'close' waits for ever.
 */
class PendingResponses {
  private readonly open = new WeakMap<Socket, Set<ServerResponse>>();

  add(socket: Socket, response: ServerResponse): void {
    let responses = this.open.get(socket);
    if (!responses) {
      this.open.set(socket, (responses = new Set()));
      socket.once('close', () => this.closeWaiting(socket));
    }
    responses.add(response);
    response.once('close', () => responses.delete(response));
  }

  /** The latest whose request has arrived whole; one that is still arriving is never answered otherwise. */
  lastWhole(socket: Socket): ServerResponse | undefined {
    return [...(this.open.get(socket) ?? [])].filter(({ req }) => req.complete).at(-1);
  }

  private closeWaiting(socket: Socket): void {
    for (const response of this.open.get(socket) ?? []) {
      if (response.socket || response.writableFinished) continue; // Node sees to these
      response.destroy();
      response.emit('close');
    }
  }
}
