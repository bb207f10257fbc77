import { type ApiResponse, newOrder } from '../support/api-client.js';
import type { TestApp } from '../support/test-app.js';

export const FEED = 'till-7';

export type FeedRecord = Record<string, unknown>;

/** The records with the numbers `from` to `to`: order `n` has the reference `ref-n`. */
export function records(from: number, to: number, different: FeedRecord = {}): FeedRecord[] {
  return Array.from({ length: to - from + 1 }, (_, index) =>
    newOrder({ externalRef: `ref-${from + index}`, ...different }),
  );
}

/** Opens an epoch and gives its number. */
export async function openEpoch(service: TestApp, feed = FEED): Promise<number> {
  const { status, text, body } = await service.as().send('POST', `/v1/feeds/${feed}/epochs`);
  if (status !== 201) throw new Error(`No epoch was opened: ${status} ${text}`);
  return body.epoch as number;
}

/** Sends a batch; by default the records of these numbers that {@link records} makes. */
export function sendBatch(
  service: TestApp,
  epoch: number,
  firstSequence: number,
  batch: number | readonly unknown[],
  feed = FEED,
): Promise<ApiResponse> {
  const sent = typeof batch === 'number' ? records(firstSequence, batch) : batch;
  return service.as().send('POST', `/v1/feeds/${feed}/records`, { body: { epoch, firstSequence, records: sent } });
}

/** What of an answer the tests look at: its status, and the acknowledgement or the refusal. */
export function outcomeOf({ status, body }: ApiResponse): unknown[] {
  if (status === 200) return [status, body.lastSequence, body.applied, body.duplicates];
  return [status, body.code, body.expectedSequence ?? body.currentEpoch ?? body.sequence];
}

/** How far the feed has come, or the status of the refusal. */
export async function lastSequence(service: TestApp, feed = FEED): Promise<number> {
  const { body, status } = await service.as().get(`/v1/feeds/${feed}`);
  return (body.lastSequence as number | undefined) ?? status;
}
