import type { Server } from 'node:http';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { RequestHandler, Response } from 'express';
import { Problem } from '../http/problem.js';
import { ServiceUnavailable } from '../http/problems.js';

/**
 * The end of the service: what is in flight is answered, what comes anew is turned away with 503, so that a client sends
 * it again elsewhere or later, and no keep-alive socket holds the process.
 */
@Injectable()
export class Drain {
  private readonly inFlight = new Set<Response>();
  private begun = false;
  private emptied: () => void = () => undefined;

  constructor(private readonly adapterHost: HttpAdapterHost) {}

  /** Whether the service is on its way out. */
  get stopping(): boolean {
    return this.begun;
  }

  /** Express middleware, to stand before everything else. */
  readonly handle: RequestHandler = (request, response, next) => {
    if (this.begun) {
      response.setHeader('Connection', 'close');
      if (!request.path.startsWith('/health/')) {
        return next(
          new Problem(ServiceUnavailable, 'The service is shutting down.', { headers: { 'Retry-After': '1' } }),
        );
      }
    }
    this.inFlight.add(response);
    response.once('close', () => {
      this.inFlight.delete(response);
      if (this.inFlight.size === 0) this.emptied();
    });
    next();
  };

  /**
   * Turns new requests away, and waits until those in flight are answered.
   *
   * @param patience milliseconds; what is not answered by then is cut off
   */
  async run(patience: number): Promise<void> {
    this.begun = true;
    for (const response of this.inFlight) {
      if (!response.headersSent) response.setHeader('Connection', 'close'); // its socket ends with its answer
    }
    const server = this.adapterHost.httpAdapter.getHttpServer() as Server;
    server.closeIdleConnections();
    if (this.inFlight.size > 0) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, patience);
        this.emptied = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    server.close();
    server.closeAllConnections();
  }
}
