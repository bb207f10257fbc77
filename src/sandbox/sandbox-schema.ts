/** Any fixed number will do, as long as every sandbox uses the same. */
export const SCHEMA_LOCK = 4_242_190_773;

/** What to run for each version of the schema, in order. Never edit one that has been released: append. */
export const SCHEMA_VERSIONS: readonly string[] = [
  `
  CREATE TABLE sandbox.payment_intents (
    seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    id text PRIMARY KEY,
    amount bigint NOT NULL CHECK (amount > 0),
    currency text NOT NULL,
    status text NOT NULL,
    payment_method text,
    test_card text,
    charge text UNIQUE,
    last_payment_error jsonb,
    metadata jsonb NOT NULL,
    details jsonb NOT NULL,
    created bigint NOT NULL
  );

  CREATE TABLE sandbox.refunds (
    seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    id text PRIMARY KEY,
    payment_intent text NOT NULL REFERENCES sandbox.payment_intents (id),
    amount bigint NOT NULL CHECK (amount > 0),
    currency text NOT NULL,
    status text NOT NULL,
    reason text,
    failure_reason text,
    metadata jsonb NOT NULL,
    settles_as text,
    settles_at timestamptz,
    created bigint NOT NULL
  );
  CREATE INDEX refunds_payment_intent ON sandbox.refunds (payment_intent);
  CREATE INDEX refunds_settles_at ON sandbox.refunds (settles_at) WHERE settles_at IS NOT NULL;

  CREATE TABLE sandbox.idempotency_keys (
    key text PRIMARY KEY,
    path text NOT NULL,
    fingerprint text NOT NULL,
    status int NOT NULL,
    body text NOT NULL,
    request_id text NOT NULL,
    created_at timestamptz NOT NULL,
    answered_at timestamptz NOT NULL
  );

  CREATE TABLE sandbox.bank_transfers (
    seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    id text PRIMARY KEY,
    reference text NOT NULL,
    amount bigint NOT NULL CHECK (amount > 0),
    currency text NOT NULL,
    account text NOT NULL,
    refund_of text REFERENCES sandbox.bank_transfers (id),
    created_at timestamptz NOT NULL
  );
  CREATE INDEX bank_transfers_reference ON sandbox.bank_transfers (reference, seq);
  CREATE INDEX bank_transfers_refund_of ON sandbox.bank_transfers (refund_of);

  CREATE TABLE sandbox.faults (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation text NOT NULL,
    fault text NOT NULL,
    delay_ms int NOT NULL
  );

  CREATE TABLE sandbox.effects (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation text NOT NULL,
    reference text NOT NULL,
    amount bigint NOT NULL,
    currency text NOT NULL,
    idempotency_key text,
    created_at timestamptz NOT NULL
  );

  CREATE TABLE sandbox.calls (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    operation text NOT NULL,
    idempotency_key text,
    status int,
    at timestamptz NOT NULL
  );

  CREATE TABLE sandbox.events (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    type text NOT NULL,
    payload text NOT NULL,
    attempts int NOT NULL DEFAULT 0,
    next_attempt_at timestamptz NOT NULL,
    delivered_at timestamptz
  );
  CREATE INDEX events_due ON sandbox.events (next_attempt_at) WHERE delivered_at IS NULL;

  CREATE TABLE sandbox.switches (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    webhooks_paused boolean NOT NULL DEFAULT false
  );
  INSERT INTO sandbox.switches DEFAULT VALUES;
  `,
];
