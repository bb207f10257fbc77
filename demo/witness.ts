/** What a client saw of one request. */
export interface Sighting {
  /** Such as `POST /v1/orders`. */
  readonly request: string;
  /** Undefined: no answer came. */
  readonly status: number | undefined;
  /** Of what the answer shows, or the machine's word for a refusal. */
  readonly id?: string | undefined;
  readonly code?: string | undefined;
  /** `Idempotent-Replayed: true` */
  readonly replayed: boolean;
}

/** Stands beside a client and notes what it sees, in the order in which it asked. */
export class Witness {
  readonly seen: Sighting[] = [];

  /** For a client in place of the global one. */
  readonly fetch: typeof globalThis.fetch = async (input, init) => {
    const { pathname } = new URL(input instanceof Request ? input.url : input);
    const request = `${init?.method ?? 'GET'} ${pathname}`;
    const place = this.seen.push({ request, status: undefined, replayed: false }) - 1;
    const response = await globalThis.fetch(input, init);
    const body = (await response
      .clone()
      .json()
      .catch(() => undefined)) as { id?: string; code?: string } | undefined;
    const replayed = response.headers.get('idempotent-replayed') === 'true';
    this.seen[place] = { request, status: response.status, id: body?.id, code: body?.code, replayed };
    return response;
  };
}
