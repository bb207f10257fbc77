import { hash } from 'node:crypto';
import { type CallHandler, type ExecutionContext, Inject, Injectable, type NestInterceptor } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { Request, Response } from 'express';
import { lastValueFrom, type Observable, of } from 'rxjs';
import { type KeyedOutcome, tell } from '../config/telemetry.js';
import { isSerializationConflict } from '../database/sql-state.js';
import { exceptionToProblem } from '../http/exception-to-problem.js';
import { Problem } from '../http/problem.js';
import { ProblemRenderer } from '../http/problem-renderer.js';
import { annotationsOf } from '../http/request-annotations.js';
import { concretePath, queryOf } from './concrete-path.js';
import { fingerprint } from './fingerprint.js';
import { parseIdempotencyKey } from './idempotency-key.js';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import { KeyInUse, KeyInvalid, KeyMissing, KeyReused } from './idempotency.problems.js';
import { IDEMPOTENT, type IdempotentOptions } from './idempotent.decorator.js';
import { KeyedExecution } from './keyed-execution.js';
import type { KeyedRequest } from './keyed-request.js';
import { type Answer, CapturedResponse } from './captured-response.js';
import type { HandledRequest } from './execution.js';
import { LeasedExecution } from './leased-execution.js';
import { LocalExecution } from './local-execution.js';
import { enterOperation, LeaseLostError } from './operation.js';

/**
 * Acts on {@link Idempotent}. It is registered first of the global interceptors and so is the outermost: it records what
 * inner interceptors and pipes made of the result, refusals included.
 */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(
    private readonly reflector: Reflector,
    private readonly execution: KeyedExecution,
    private readonly local: LocalExecution,
    private readonly leased: LeasedExecution,
    private readonly renderer: ProblemRenderer,
    @Inject(IDEMPOTENCY_OPTIONS) private readonly options: IdempotencyOptions,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const rules = this.reflector.get<IdempotentOptions | undefined>(IDEMPOTENT, context.getHandler());
    if (!rules) return next.handle();
    const http = context.switchToHttp();
    const request = http.getRequest<Request>();
    const keyed = this.keyedRequest(request, rules);
    if (!keyed) return next.handle();

    const notes = annotationsOf(request);
    notes.endpoint = rules.endpoint;
    notes.keyHash = hash('sha256', keyed.scope.key).slice(0, 16);
    const captured = new CapturedResponse(http.getResponse<Response>());
    try {
      const handle = () => this.handle(request, captured, next);
      const answer = await this.execution.run(keyed, (flight) => {
        if (rules.mode !== 'leased') return this.local.run(keyed, flight, handle);
        return this.leased.run(keyed, flight, (operation) => {
          enterOperation(request, operation);
          return handle();
        });
      });
      notes.outcome = outcomeOf(answer);
      captured.prepare(answer);
      return of(undefined);
    } catch (error) {
      notes.outcome = failedOutcome(error);
      throw error;
    } finally {
      captured.restore();
      if (notes.outcome) tell('keyed-request', { endpoint: rules.endpoint, outcome: notes.outcome });
    }
  }

  /** @returns `undefined` when the request has no key and needs none */
  private keyedRequest(request: Request, rules: IdempotentOptions): KeyedRequest | undefined {
    const parsed = parseIdempotencyKey(request.headersDistinct['idempotency-key']);
    if ('problem' in parsed) {
      if (parsed.problem === 'missing' && rules.key === 'optional') return undefined;
      throw new Problem(parsed.problem === 'missing' ? KeyMissing : KeyInvalid, parsed.detail);
    }
    const body = request.body as unknown;
    const input = { method: request.method, path: concretePath(request), query: queryOf(request), body };
    return {
      scope: { tenantId: this.options.tenantOf(request), endpoint: rules.endpoint, key: parsed.key },
      fingerprint: fingerprint(input, rules.fingerprint ?? {}),
      waitUntil: performance.now() + this.options.wait,
    };
  }

  /**
   * Runs everything behind this interceptor, once per attempt. A refusal that says the same however often it is asked
   * becomes an answer to record; one that may pass is thrown on, and nothing remains of it.
   *
   * `lastValueFrom` waits for the end whatever the client does: a handler whose client has gone must not be torn.
   */
  private async handle(request: Request, captured: CapturedResponse, next: CallHandler): Promise<HandledRequest> {
    captured.reset();
    try {
      const result = await captured.of(() => lastValueFrom(next.handle(), { defaultValue: undefined }));
      return { response: captured.capture(result), refused: false };
    } catch (error) {
      // For the unit of work, which begins again at the claim, and for whoever waits for the new owner.
      if (isSerializationConflict(error) || error instanceof LeaseLostError) throw error;
      const problem = exceptionToProblem(error);
      captured.reset();
      if (problem.type.underKey !== 'stored') throw problem;
      return { response: this.renderer.render(problem, request.path), refused: true };
    }
  }
}

function outcomeOf({ replayed, takenOver, response }: Answer): KeyedOutcome {
  if (replayed) return 'replayed';
  if (takenOver) return 'taken_over';
  return response.status < 400 ? 'executed' : 'refused';
}

function failedOutcome(error: unknown): KeyedOutcome {
  const type = error instanceof Problem ? error.type : undefined;
  if (type === KeyInUse) return 'in_use';
  if (type === KeyReused) return 'mismatch';
  return type?.underKey === 'kept-open' ? 'kept_open' : 'released';
}
