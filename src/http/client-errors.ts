import { STATUS_CODES, type Server } from 'node:http';
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

const BY_CODE: Readonly<Record<string, ProblemType>> = {
  HPE_HEADER_OVERFLOW: HeadersTooLarge,
  ERR_HTTP_REQUEST_TIMEOUT: RequestTimeout,
};

/**
 * Answers what Node's parser refuses, before Express ever sees it, with a problem document as well.
 */
export function answerClientErrors(server: Server, renderer: ProblemRenderer): void {
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy();
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
  });
}
