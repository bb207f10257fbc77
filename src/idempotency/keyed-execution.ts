import { Injectable } from '@nestjs/common';
import { Problem } from '../http/problem.js';
import type { Answer } from './captured-response.js';
import type { Execution } from './execution.js';
import { type Flight, Flights } from './flights.js';
import { KeyInUse, KeyReused } from './idempotency.problems.js';
import { KeyClaims } from './key-claims.js';
import type { KeyRecord } from './key-record.js';
import { scopeId } from './key-scope.js';
import { isRecordOf, type KeyedRequest } from './keyed-request.js';
import { RecentKeys } from './recent-keys.js';

const REMEMBERED_KEYS = 10_000;

type Execute = (flight: Flight) => Promise<Execution | undefined>;

/**
 * Answers a request under a key: by doing it, by repeating what came of it, or by refusing. In one process only one
 * request of a key goes through the database; its duplicates wait here for the outcome.
 */
@Injectable()
export class KeyedExecution {
  private readonly flights = new Flights();
  private readonly recent = new RecentKeys(REMEMBERED_KEYS);

  constructor(private readonly claims: KeyClaims) {}

  /**
   * @param execute gets the key and does the work, or finds it done; gives `undefined` when the key is still in use
   * @throws Problem `idempotency-key-in-use`, `idempotency-key-reused`, or what `execute` threw
   */
  async run(request: KeyedRequest, execute: Execute): Promise<Answer> {
    for (;;) {
      const flight = this.flights.find(request.scope);
      if (!flight) {
        const { record, executed, takenOver = false } = await this.lead(request, execute);
        return { ...answer(request, record, !executed), takenOver };
      }
      const landing = await flight.wait(request);
      if (landing.kind === 'recorded') return answer(request, landing.record, true);
      if (landing.kind === 'claimed-by-another-request') throw reused(landing.since);
      if (landing.kind === 'timed-out') throw inUse();
      // The leader ended without a record. Whoever gets here first leads now, with what is left of its own time.
    }
  }

  private async lead(request: KeyedRequest, execute: Execute): Promise<Execution> {
    const id = scopeId(request.scope);
    const execution = await this.flights.lead(request.scope, async (flight) => {
      if (this.recent.has(id)) {
        const record = await this.claims.find(request);
        if (record?.completed) return { record, executed: false };
      }
      const run = await execute(flight);
      if (!run) throw inUse();
      return run;
    });
    this.recent.add(id);
    return execution;
  }
}

/** @throws Problem when the record is of another request, or not finished */
function answer(request: KeyedRequest, record: KeyRecord, replayed: boolean): Answer {
  const { createdAt, completed } = record;
  if (!isRecordOf(request, record)) {
    throw reused(createdAt, completed);
  }
  if (!completed) throw inUse();
  return { ...completed, replayed, takenOver: false };
}

function inUse(): Problem {
  return new Problem(KeyInUse, 'The first request with this Idempotency-Key is still running.', {
    headers: { 'Retry-After': '1' },
  });
}

function reused(since: Date, completed?: KeyRecord['completed']): Problem {
  const ended = completed ? `it ended with status ${completed.response.status}` : 'it is still running';
  const detail = `Another request was sent with this Idempotency-Key at ${since.toISOString()}; ${ended}.`;
  const headers = completed && { 'Idempotency-Expires': completed.expiresAt.toISOString() };
  return new Problem(KeyReused, detail, { ...(headers && { headers }) });
}
