import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import pg from 'pg';
import { startEmbeddedPostgres } from '../dist/src/database/embedded-postgres.js';

/** A throwaway Postgres with the settings of a real one: every COMMIT waits for the disk. */
export class ThrowawayPostgres {
  #embedded;

  static async start() {
    const server = new ThrowawayPostgres();
    server.#embedded = await startEmbeddedPostgres({ directory: await mkdtemp(join(tmpdir(), 'orders-bench-')) });
    return server;
  }

  /**
   * A database of its own, with the schema of that checkout.
   *
   * @param {string} name
   * @param {string} checkout
   */
  async createDatabase(name, checkout) {
    const server = new pg.Client({ connectionString: this.#embedded.url });
    await server.connect();
    await server.query(`CREATE DATABASE ${name}`);
    await server.end();
    const url = new URL(this.#embedded.url);
    url.pathname = `/${name}`;
    const built = (path) => import(pathToFileURL(join(checkout, 'dist', path)).href);
    const [{ migrate }, { MIGRATIONS }] = [await built('src/database/migrator.js'), await built('migrations/index.js')];
    await migrate(url.href, MIGRATIONS);
    return new Database(url.href);
  }

  async stop() {
    await this.#embedded.stop();
    await rm(this.#embedded.directory, { recursive: true, force: true });
  }
}

/** A look into one database, beside the server that works on it. */
export class Database {
  #pool;

  /** @param {string} url */
  constructor(url) {
    this.url = url;
    this.#pool = new pg.Pool({ connectionString: url, max: 1 });
    this.#pool.on('error', () => undefined);
  }

  /**
   * @param {string} text
   * @param {unknown[]} [values]
   * @returns {Promise<Record<string, any>>} the first row
   */
  async row(text, values) {
    return (await this.#pool.query(text, values)).rows[0];
  }

  async close() {
    await this.#pool.end();
  }
}
