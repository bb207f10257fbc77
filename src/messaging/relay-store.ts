import type { Statement } from '../database/transaction.js';

/** Events of one aggregate that are taken at once. */
const MOST_OF_ONE = 20;
/** Aggregates that are taken at once. */
const MOST_AGGREGATES = 50;
/** Attempts begun and not ended after which an event is held to be what kills its relays. */
export const MOST_BROKEN_OFF = 10;
/** As many after which it is tried alone. A relay that dies leaves its whole batch so: alone, it shows which it was. */
export const SUSPICIOUS = 2;
const LONGEST_DELAY = 300_000;
/** Characters of what is kept of a reason. */
const LONGEST_REASON = 2_000;

/** An event that a relay has taken. */
export interface TakenEvent {
  readonly id: string;
  readonly type: string;
  readonly subject: string;
  readonly aggregateVersion: number;
  readonly time: Date;
  readonly data: unknown;
  readonly attemptsFinished: number;
}

/**
 * Finds which tenants have events to publish: from one to the next in the index, a step for each tenant, where DISTINCT
 * would read every event of all of them.
 */
export const TENANTS_WITH_EVENTS = `
  WITH RECURSIVE tenants AS (
    (SELECT tenant_id FROM outbox WHERE published_at IS NULL ORDER BY tenant_id LIMIT 1)
    UNION ALL
    SELECT (SELECT outbox.tenant_id FROM outbox
            WHERE published_at IS NULL AND outbox.tenant_id > tenants.tenant_id ORDER BY outbox.tenant_id LIMIT 1)
    FROM tenants WHERE tenants.tenant_id IS NOT NULL)
  SELECT tenant_id FROM tenants WHERE tenant_id IS NOT NULL`;

/**
 * Finds the first unpublished event of each aggregate, where it is free: an aggregate whose first event is owned, waits
 * for its next attempt or is dead is passed over with all that stands behind it, so order within an aggregate holds with
 * any number of relays. A step in the index for each aggregate that has unpublished events, none for the events behind:
 * 20,000 events behind a dead one cost what 20 do. It grows with the aggregates that are passed over, by about four pages
 * of the cache for each: 1,000 take some milliseconds, 10,000 some hundred, whatever the statistics say.
 */
export function freeHeadsStatement(tenantId: string): Statement {
  return {
    text: `
      WITH RECURSIVE heads AS (
        (SELECT aggregateid, id, available_at, lease_until, dead_at, attempts_started - attempts_finished AS broken_off
         FROM outbox
         WHERE tenant_id = $1 AND published_at IS NULL
         ORDER BY aggregateid, aggregateversion LIMIT 1)
        UNION ALL
        SELECT next.* FROM heads CROSS JOIN LATERAL (
          SELECT o.aggregateid, o.id, o.available_at, o.lease_until, o.dead_at, o.attempts_started - o.attempts_finished
          FROM outbox o
          WHERE o.tenant_id = $1 AND o.published_at IS NULL AND o.aggregateid > heads.aggregateid
          ORDER BY o.aggregateid, o.aggregateversion LIMIT 1) next)
      SELECT id, broken_off AS "brokenOff" FROM heads
      WHERE dead_at IS NULL AND coalesce(lease_until, '-infinity') <= statement_timestamp()
        AND coalesce(available_at, '-infinity') <= statement_timestamp()
      LIMIT ${MOST_AGGREGATES}`,
    values: [tenantId],
  };
}

/**
 * Takes the rows of those heads that are still free, for this transaction. SKIP LOCKED: another relay that takes one at
 * this moment has it, and the look before was made without a lock.
 */
export function lockHeadsStatement(tenantId: string, ids: readonly string[]): Statement {
  return {
    text: `
      SELECT id, aggregateid FROM outbox
      WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND published_at IS NULL AND dead_at IS NULL
        AND coalesce(lease_until, '-infinity') <= statement_timestamp()
        AND coalesce(available_at, '-infinity') <= statement_timestamp()
      FOR UPDATE SKIP LOCKED`,
    values: [tenantId, ids],
  };
}

/**
 * What stands at the front of those aggregates, in the order of versions, up to the first that is not free: one that was
 * skipped and is tried again may stand before a dead one, which is not to be passed by with those behind it.
 */
export function frontStatement(tenantId: string, aggregateIds: readonly string[]): Statement {
  return {
    text: `
      SELECT front.id FROM unnest($2::uuid[]) AS aggregate CROSS JOIN LATERAL (
        SELECT id, bool_and(dead_at IS NULL AND coalesce(lease_until, '-infinity') <= statement_timestamp()
          AND coalesce(available_at, '-infinity') <= statement_timestamp()) OVER (ORDER BY aggregateversion) AS is_free
        FROM (
          SELECT id, aggregateversion, dead_at, lease_until, available_at FROM outbox
          WHERE tenant_id = $1 AND aggregateid = aggregate AND published_at IS NULL
          ORDER BY aggregateversion LIMIT ${MOST_OF_ONE}) AS first) AS front
      WHERE front.is_free`,
    values: [tenantId, aggregateIds],
  };
}

/**
 * Makes them the relay's. An attempt counts as started from here on; a relay that dies leaves it so, and an event that
 * has been started much more often than finished is what they die of.
 */
export function takeStatement(tenantId: string, ids: readonly string[], token: string, lease: number): Statement {
  return {
    text: `
      UPDATE outbox SET
        lease_token = $3, lease_until = statement_timestamp() + $4::float8 * interval '1 millisecond',
        attempts_started = attempts_started + 1
      WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND published_at IS NULL AND dead_at IS NULL
      RETURNING id, type, aggregateid AS subject, aggregateversion AS "aggregateVersion", created_at AS time,
        payload AS data, attempts_finished AS "attemptsFinished"`,
    values: [tenantId, ids, token, lease],
  };
}

/** Puts aside what relays have died of. */
export function buryKillersStatement(tenantId: string, ids: readonly string[]): Statement {
  return {
    text: `
      UPDATE outbox SET dead_at = statement_timestamp(), dead_reason = 'Relays have ended in the middle of it'
      WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND attempts_started - attempts_finished >= ${MOST_BROKEN_OFF}
        AND published_at IS NULL AND coalesce(lease_until, '-infinity') <= statement_timestamp()
      RETURNING id`,
    values: [tenantId, ids],
  };
}

/** Marks what was delivered, as far as it is still the relay's: what another one has taken over is that one's to mark. */
export function publishedStatement(tenantId: string, ids: readonly string[], token: string): Statement {
  return {
    text: `
      UPDATE outbox SET
        published_at = statement_timestamp(), attempts_finished = attempts_finished + 1,
        lease_token = NULL, lease_until = NULL, available_at = NULL
      WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND lease_token = $3 AND published_at IS NULL
      RETURNING id`,
    values: [tenantId, ids, token],
  };
}

/**
 * Notes that an event was refused: it is tried again later, twice as late each time, or put aside.
 *
 * @param firstDelay milliseconds
 */
export function refusedStatement(
  tenantId: string,
  id: string,
  token: string,
  { reason, firstDelay, attempts }: { readonly reason: string; readonly firstDelay: number; readonly attempts: number },
): Statement {
  return {
    text: `
      UPDATE outbox SET
        attempts_finished = attempts_finished + 1, lease_token = NULL, lease_until = NULL,
        available_at = statement_timestamp()
          + least($5::float8 * power(2, attempts_finished), ${LONGEST_DELAY}) * interval '1 millisecond',
        dead_at = CASE WHEN attempts_finished + 1 >= $6 THEN statement_timestamp() END,
        dead_reason = $4
      WHERE tenant_id = $1 AND id = $2 AND lease_token = $3 AND published_at IS NULL
      RETURNING dead_at IS NOT NULL AS died`,
    values: [tenantId, id, token, storable(reason), firstDelay, attempts],
  };
}

/** Lets others have what was taken and not tried. */
export function giveBackEventsStatement(tenantId: string, ids: readonly string[], token: string): Statement {
  return {
    text: `
      UPDATE outbox SET lease_token = NULL, lease_until = NULL, attempts_started = attempts_started - 1
      WHERE tenant_id = $1 AND id = ANY ($2::uuid[]) AND lease_token = $3 AND published_at IS NULL`,
    values: [tenantId, ids, token],
  };
}

/** Postgres takes no NUL, and what refuses the reason would refuse the marks of the whole batch. */
function storable(reason: string): string {
  return reason.replaceAll('\0', '').slice(0, LONGEST_REASON);
}
