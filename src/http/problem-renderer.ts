import type { AddressInfo } from 'node:net';
import type { Server } from 'node:http';
import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { Problem } from './problem.js';

export const PUBLIC_URL = Symbol('PUBLIC_URL');
export const PROBLEM_MEDIA_TYPE = 'application/problem+json; charset=utf-8';

/** An answer that is nothing but a status, headers and bytes. */
export interface RenderedProblem {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Writes problem documents (RFC 9457, section 3). Filter and idempotency interceptor share it: one refusal, one text. */
@Injectable()
export class ProblemRenderer {
  private base: string | undefined;

  constructor(
    @Inject(PUBLIC_URL) private readonly publicUrl: string | undefined,
    private readonly adapterHost: HttpAdapterHost,
  ) {}

  render(problem: Problem, instance: string): RenderedProblem {
    const { code, title, status } = problem.type;
    const document = {
      type: `${this.baseUrl()}/problems/${code}`,
      title,
      status,
      detail: problem.detail,
      instance,
      code,
      ...problem.content.members,
    };
    return {
      status,
      headers: { 'Content-Type': PROBLEM_MEDIA_TYPE, ...problem.content.headers },
      body: Buffer.from(JSON.stringify(document)),
    };
  }

  /** The address clients use: as configured, else that of the port listened on. */
  baseUrl(): string {
    if (this.publicUrl !== undefined) return this.publicUrl;
    if (this.base !== undefined) return this.base;
    const server = this.adapterHost.httpAdapter.getHttpServer() as Server;
    const address = server.address() as AddressInfo | null;
    if (address === null) return 'http://localhost';
    this.base = `http://localhost:${address.port}`;
    return this.base;
  }
}
