import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { v7 as uuidv7 } from 'uuid';
import { AcrossTenants } from '../database/across-tenants.js';
import { sqlStateOf, SqlState } from '../database/sql-state.js';

/** Who sent a request: a tenant, by one of its API keys. */
export interface Caller {
  readonly tenantId: string;
  readonly keyId: string;
}

/** A key as it is made. The text is told once and kept nowhere. */
export interface IssuedKey {
  readonly tenantId: string;
  readonly keyId: string;
  readonly key: string;
}

export interface ListedKey {
  readonly tenant: string;
  readonly keyId: string;
  /** The beginning of the key, enough to tell it from its siblings. */
  readonly hint: string;
  readonly createdAt: Date;
  readonly revokedAt: Date | null;
}

/** What is wrong with a command about tenants, in words for its user. */
export class TenantError extends Error {
  override readonly name = 'TenantError';
}

const HINT_LENGTH = 10;

/** Tenants and their API keys. Keys are long random texts, so their SHA-256 is all that needs to be kept. */
@Injectable()
export class TenantDirectory {
  constructor(private readonly acrossTenants: AcrossTenants) {}

  /** Whose key has that {@link hashOf hash}; `undefined` when it is unknown or revoked. */
  async identify(hash: Buffer): Promise<Caller | undefined> {
    const [found] = await this.acrossTenants.query<{ id: string; tenant_id: string; hash: Buffer }>(
      'SELECT id, tenant_id, hash FROM api_keys WHERE hash = $1 AND revoked_at IS NULL',
      [hash],
    );
    if (!found || !timingSafeEqual(found.hash, hash)) return undefined;
    return { tenantId: found.tenant_id, keyId: found.id };
  }

  /** @throws TenantError when there is a tenant of that name */
  async create(name: string): Promise<IssuedKey> {
    if (!/^[\p{L}\p{N}][\p{L}\p{N} ._-]{0,99}$/u.test(name)) {
      throw new TenantError('A tenant is named by 1 to 100 letters, digits, blanks, dots, dashes and underscores.');
    }
    const tenantId = uuidv7();
    try {
      await this.acrossTenants.query('INSERT INTO tenants (id, name) VALUES ($1, $2)', [tenantId, name]);
    } catch (error) {
      if (sqlStateOf(error) === SqlState.uniqueViolation) throw new TenantError(`There is a tenant ${name} already.`);
      throw error;
    }
    return this.issue(tenantId);
  }

  /**
   * Makes another key for a tenant. The others go on working until they are revoked, so that its clients can change over
   * without a gap.
   *
   * @throws TenantError when there is no such tenant
   */
  async rotate(name: string): Promise<IssuedKey> {
    const [tenant] = await this.acrossTenants.query<{ id: string }>('SELECT id FROM tenants WHERE name = $1', [name]);
    if (!tenant) throw new TenantError(`There is no tenant ${name}.`);
    return this.issue(tenant.id);
  }

  /** @throws TenantError when there is no such key. Revoking a revoked one changes nothing. */
  async revoke(keyId: string): Promise<void> {
    const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(keyId);
    const revoked = isId
      ? await this.acrossTenants.query(
          'UPDATE api_keys SET revoked_at = coalesce(revoked_at, statement_timestamp()) WHERE id = $1 RETURNING id',
          [keyId],
        )
      : [];
    if (revoked.length === 0) throw new TenantError(`There is no key ${keyId}. "list" shows the ids.`);
  }

  async list(): Promise<ListedKey[]> {
    return this.acrossTenants.query(`
      SELECT t.name AS tenant, k.id AS "keyId", k.hint, k.created_at AS "createdAt", k.revoked_at AS "revokedAt"
      FROM api_keys k JOIN tenants t ON t.id = k.tenant_id ORDER BY t.name, k.created_at, k.id`);
  }

  /** Makes the tenants of the demonstration, unless they are there. Their keys are public: never in production. */
  async seed(tenants: readonly { tenantId: string; name: string; keyId: string; key: string }[]): Promise<void> {
    for (const { tenantId, name, keyId, key } of tenants) {
      await this.acrossTenants.query('INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING', [
        tenantId,
        name,
      ]);
      await this.acrossTenants.query(
        `INSERT INTO api_keys (id, tenant_id, hash, hint)
         SELECT $1, id, $3, $4 FROM tenants WHERE name = $2 ON CONFLICT DO NOTHING`,
        [keyId, name, hashOf(key), key.slice(0, HINT_LENGTH)],
      );
    }
  }

  private async issue(tenantId: string): Promise<IssuedKey> {
    const keyId = uuidv7();
    const key = `sk_${randomBytes(24).toString('base64url')}`;
    await this.acrossTenants.query('INSERT INTO api_keys (id, tenant_id, hash, hint) VALUES ($1, $2, $3, $4)', [
      keyId,
      tenantId,
      hashOf(key),
      key.slice(0, HINT_LENGTH),
    ]);
    return { tenantId, keyId, key };
  }
}

/** SHA-256 of a key. */
export function hashOf(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}
