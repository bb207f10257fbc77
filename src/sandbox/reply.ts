import type { IncomingHttpHeaders } from 'node:http';

/** A request as it was read from the wire. */
export interface SandboxRequest {
  /** `req_…`, told in the answer and in events. */
  readonly id: string;
  readonly method: string;
  /** Still percent-encoded. */
  readonly path: string;
  /** What stands behind the `?`, still encoded. */
  readonly query: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** What a request is answered. */
export interface Reply {
  readonly status: number;
  /** JSON text; undefined: no body. */
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Milliseconds to wait before anything is answered. */
  readonly delayMs?: number;
  /** Instead of an answer: the connection is closed, or reset. */
  readonly instead?: 'close' | 'reset';
}

export function json(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Reply {
  return { status, body: JSON.stringify(body), headers };
}

/** Thrown to answer something else than was asked for. */
export class Refusal extends Error {
  override readonly name: string = 'Refusal';

  constructor(readonly reply: Reply) {
    super(`refused with ${reply.status}: ${reply.body}`);
  }
}

/** How the bank and the sandbox's own routes refuse: `{ error: { code, param, message } }`. */
export class PlainRefusal extends Refusal {
  constructor(status: number, code: string, message: string, param?: string) {
    super(json(status, { error: { code, ...(param !== undefined && { param }), message } }));
  }
}
