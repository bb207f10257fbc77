import { Readable } from 'node:stream';
import { StreamableFile } from '@nestjs/common';
import type { Response } from 'express';
import type { StoredResponse } from './key-record.js';

/** The headers that a replay repeats; all others belong to the one exchange they were made for. */
const STORED_HEADERS = ['Content-Type', 'Location', 'ETag'] as const;

/** Statuses whose answers have no content (RFC 9110, sections 15.3.5, 15.3.6 and 15.4.5). */
const BODILESS = new Set([204, 205, 304]);

/** What `@Idempotent()` sends: an answer, until when it is kept, and whether it is a replay. */
export interface Answer {
  readonly response: StoredResponse;
  readonly expiresAt: Date;
  readonly replayed: boolean;
  /** Whether it went on where an earlier attempt had stopped. */
  readonly takenOver: boolean;
}

/** Every way of sending something. */
const SENDING = ['writeHead', 'flushHeaders', 'write', 'end'] as const;
type Senders = Readonly<Record<(typeof SENDING)[number], unknown>>;

const captures = new WeakMap<Response, CapturedResponse>();

/**
 * What they are replaced by: made once, for they are needed with every request. Swallowed and not thrown: a stream that
 * is piped here would take the process down with it.
 */
const SWALLOWING = Object.fromEntries(
  SENDING.map((name) => [
    name,
    function (this: Response): unknown {
      captures.get(this)?.refuse(new Error('An idempotent handler must return its answer, not send it'));
      return name === 'write' ? true : this;
    },
  ]),
);

/**
 * The HTTP response of one request under a key: what the handler makes of it is read here, and what is sent is written
 * here. Until {@link restore} nothing that the handler sends itself gets out, for nothing may reach the client before it
 * is committed.
 */
export class CapturedResponse {
  /** Tells that the handler has tried to send something. */
  refuse: (error: Error) => void = () => undefined;

  private readonly senders: Senders;
  /** What there was before a handler had its turn; without one nothing has changed. */
  private pristine: { readonly status: number; readonly headers: ReturnType<Response['getHeaders']> } | undefined;

  constructor(private readonly response: Response) {
    const { writeHead, flushHeaders, write, end } = response as Senders;
    this.senders = { writeHead, flushHeaders, write, end };
    captures.set(response, this);
    Object.assign(response, SWALLOWING);
  }

  /**
   * Waits for a handler, unless it tries to send its answer itself.
   *
   * @throws Error as soon as it tries
   */
  async of(handle: () => Promise<unknown>): Promise<unknown> {
    this.pristine ??= { status: this.response.statusCode, headers: this.response.getHeaders() };
    const sent = new Promise<never>((_, reject) => (this.refuse = reject));
    return Promise.race([handle(), sent]);
  }

  /** Lets things be sent again. */
  restore(): void {
    Object.assign(this.response, this.senders);
  }

  /** Forgets what a handler set. */
  reset(): void {
    if (!this.pristine) return;
    const { status, headers } = this.pristine;
    this.response.status(status);
    for (const name of this.response.getHeaderNames()) {
      if (!(name in headers)) this.response.removeHeader(name);
    }
    for (const [name, value] of Object.entries(headers)) {
      if (value !== undefined && this.response.getHeader(name) !== value) this.response.setHeader(name, value);
    }
  }

  /**
   * Turns a handler's result into the bytes that Nest would send for it.
   *
   * @throws Error when it cannot be repeated: a stream
   */
  capture(result: unknown): StoredResponse {
    if (result instanceof StreamableFile || result instanceof Readable || result instanceof ReadableStream) {
      throw new Error('An idempotent handler must not return a stream: its answer could not be replayed');
    }
    const body = this.bytesOf(result);
    const headers: Record<string, string> = {};
    for (const name of STORED_HEADERS) {
      const value = this.response.getHeader(name);
      if (value !== undefined) headers[name] = String(value);
    }
    return { status: this.response.statusCode, headers, body };
  }

  /**
   * Makes the response this answer. The handler's result is gone by then: what Nest sends when there is none becomes the
   * bytes, for everything else that it can send is another text (a charset is added) or takes a stream.
   */
  prepare({ response, expiresAt, replayed }: Answer): void {
    if (replayed) this.reset();
    this.response.status(response.status).set(response.headers);
    this.response.setHeader('Idempotency-Expires', expiresAt.toISOString());
    if (replayed) this.response.setHeader('Idempotent-Replayed', 'true');
    if (response.body.length > 0) this.response.send = () => this.response.end(response.body);
  }

  private bytesOf(result: unknown): Buffer {
    const hasNoContent = BODILESS.has(this.response.statusCode);
    if (hasNoContent) this.response.removeHeader('Content-Type');
    if (hasNoContent || result === undefined || result === null) return Buffer.alloc(0);
    const isObject = typeof result === 'object';
    if (!this.response.hasHeader('Content-Type')) {
      this.response.setHeader('Content-Type', `${isObject ? 'application/json' : 'text/html'}; charset=utf-8`);
    }
    return Buffer.from(isObject ? JSON.stringify(result) : String(result as string | number | boolean));
  }
}
