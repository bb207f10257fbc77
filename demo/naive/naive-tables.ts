import pg from 'pg';

/** Tables without a key that a repeat would run into. */
export async function prepareNaiveTables(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query(`
      CREATE TABLE orders (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        status text NOT NULL DEFAULT 'pending',
        currency text NOT NULL,
        items jsonb NOT NULL,
        version int NOT NULL DEFAULT 1
      );
      CREATE TABLE payments (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        order_id uuid NOT NULL REFERENCES orders (id),
        amount bigint NOT NULL,
        currency text NOT NULL,
        provider_ref text NOT NULL
      );
      CREATE TABLE bookings (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        provider_ref text NOT NULL,
        amount bigint NOT NULL
      );
      CREATE TABLE events (
        id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
        type text NOT NULL,
        subject uuid NOT NULL
      )`);
  } finally {
    await client.end();
  }
}
