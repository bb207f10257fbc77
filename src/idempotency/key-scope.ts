/** Where a key is unique: two tenants, or two endpoints, may use the same one. */
export interface KeyScope {
  readonly tenantId: string;
  readonly endpoint: string;
  readonly key: string;
}

/** The scope as text for maps of this process. A tenant id and an endpoint name contain no blank. */
export function scopeId({ tenantId, endpoint, key }: KeyScope): string {
  return `${tenantId} ${endpoint} ${key}`;
}
