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

/**
 * The HTTP response of one request under a key: what the handler makes of it is read here, and what is sent is written
 * here. Until {@link restore} nothing that the handler sends itself gets out, for nothing may reach the client before it
 * is committed.
 */
export class CapturedResponse {
  private readonly pristineStatus: number;
  private readonly pristineHeaders: ReturnType<Response['getHeaders']>;
  private readonly senders: readonly unknown[];
  private refuse: (error: Error) => void = () => undefined;

  constructor(private readonly response: Response) {
    this.pristineStatus = response.statusCode;
    this.pristineHeaders = response.getHeaders();
    this.senders = SENDING.map((name) => Reflect.get(response, name) as unknown);
    // Swallowed and not thrown: a stream that is piped here would take the process down with it.
    for (const name of SENDING) Object.assign(response, { [name]: () => this.swallow(name) });
  }

  /**
   * Waits for a handler, unless it tries to send its answer itself.
   *
   * @throws Error as soon as it tries
   */
  async of(result: Promise<unknown>): Promise<unknown> {
    const sent = new Promise<never>((_, reject) => (this.refuse = reject));
    return Promise.race([result, sent]);
  }

  /** Lets things be sent again. */
  restore(): void {
    SENDING.forEach((name, index) => Object.assign(this.response, { [name]: this.senders[index] }));
  }

  /** Forgets what a handler set. */
  reset(): void {
    this.response.status(this.pristineStatus);
    for (const name of this.response.getHeaderNames()) {
      if (!(name in this.pristineHeaders)) this.response.removeHeader(name);
    }
    for (const [name, value] of Object.entries(this.pristineHeaders)) {
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

  /** Sets status and headers, and gives what Nest is to send as the body. */
  send({ response, expiresAt, replayed }: Answer): StreamableFile | undefined {
    if (replayed) this.reset();
    this.response.status(response.status).set(response.headers).set('Idempotency-Expires', expiresAt.toISOString());
    if (replayed) this.response.set('Idempotent-Replayed', 'true');
    if (response.body.length === 0) return undefined;
    return new StreamableFile(response.body, {
      type: response.headers['Content-Type'],
      length: response.body.length,
    });
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

  private swallow(name: (typeof SENDING)[number]): unknown {
    this.refuse(new Error('An idempotent handler must return its answer, not send it'));
    return name === 'write' ? true : this.response;
  }
}
