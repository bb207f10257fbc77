import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

/** A request that has arrived whole. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** What the server does with a request; whatever it does not answer stays unanswered. */
export type Script = (response: ServerResponse, request: SeenRequest) => void;

/** Somebody else's server, which answers as a test tells it, and knows what it was asked. */
export class ScriptedServer {
  /** Each request that has arrived whole, oldest first. */
  readonly requests: SeenRequest[] = [];
  /** Each connection that was ever made. */
  readonly connections: Socket[] = [];
  /** How requests are answered, until it is set anew. */
  script: Script = (response) => response.writeHead(501).end();

  private constructor(private readonly server: Server) {
    server.on('connection', (socket) => this.connections.push(socket));
    server.on('request', (request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const url = new URL(request.url ?? '/', this.url);
        const body = Buffer.concat(chunks).toString();
        const { method = '', headers } = request;
        const seen = { method, path: url.pathname, query: url.searchParams, headers, body };
        this.requests.push(seen);
        this.script(response, seen);
      });
    });
  }

  static async start(): Promise<ScriptedServer> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return new ScriptedServer(server);
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  /** Each request from now on is answered so; a string goes out as it is, everything else as JSON. */
  answer(status: number, body: unknown, headers: Record<string, string> = {}): void {
    this.script = (response) => sendJson(response, status, body, headers);
  }

  /** Forgets what was asked and closes what is open: the next test begins on a connection of its own. */
  forget(): void {
    this.server.closeAllConnections();
    this.requests.length = 0;
    this.connections.length = 0;
  }

  async stop(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }
}

export function sendJson(response: ServerResponse, status: number, body: unknown, headers = {}): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(text);
}
