import { Readable } from 'node:stream';
import { StreamableFile } from '@nestjs/common';
import type { Response } from 'express';
import type { StoredResponse } from './key-record.js';

/** The headers that a replay repeats; all others belong to the one exchange they were made for. */
const STORED_HEADERS = ['Content-Type', 'Location', 'ETag'] as const;

/** What `@Idempotent()` sends: an answer, until when it is kept, and whether it is a replay. */
export interface Answer {
  readonly response: StoredResponse;
  readonly expiresAt: Date;
  readonly replayed: boolean;
}

/** The HTTP response of one request: what the handler made of it is read here, and what is sent is written here. */
export class CapturedResponse {
  private readonly pristineStatus: number;
  private readonly pristineHeaders: ReturnType<Response['getHeaders']>;

  constructor(private readonly response: Response) {
    this.pristineStatus = response.statusCode;
    this.pristineHeaders = response.getHeaders();
  }

  /** Forgets what an earlier attempt set. */
  reset(): void {
    this.response.status(this.pristineStatus);
    for (const name of this.response.getHeaderNames()) {
      if (!(name in this.pristineHeaders)) this.response.removeHeader(name);
    }
    for (const [name, value] of Object.entries(this.pristineHeaders)) {
      if (value !== undefined) this.response.setHeader(name, value);
    }
  }

  /**
   * Turns a handler's result into the bytes that Nest would send for it.
   *
   * @throws Error when it cannot be repeated: a stream, or an answer that is on its way already
   */
  capture(result: unknown): StoredResponse {
    if (this.response.headersSent) throw new Error('An idempotent handler must return its answer, not send it');
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
    this.reset();
    this.response.status(response.status).set(response.headers).set('Idempotency-Expires', expiresAt.toISOString());
    if (replayed) this.response.set('Idempotent-Replayed', 'true');
    if (response.body.length === 0) return undefined;
    return new StreamableFile(response.body, {
      type: response.headers['Content-Type'],
      length: response.body.length,
    });
  }

  private bytesOf(result: unknown): Buffer {
    if (result === undefined || result === null) return Buffer.alloc(0);
    const isObject = typeof result === 'object';
    if (!this.response.hasHeader('Content-Type')) {
      this.response.setHeader('Content-Type', `${isObject ? 'application/json' : 'text/html'}; charset=utf-8`);
    }
    return Buffer.from(isObject ? JSON.stringify(result) : String(result as string | number | boolean));
  }
}
