/** What goes over the wire. */
export interface WireRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

/** A complete answer. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** No complete answer came. */
export class NoAnswer {
  constructor(
    readonly reason: string,
    /** False where it is certain that the request did not arrive. */
    readonly mayHaveHappened: boolean,
    readonly cause?: unknown,
  ) {}
}

export interface AttemptBounds {
  /** Milliseconds for the answer, its body included. */
  readonly timeoutMs: number;
  /** Bytes of a body, after decompression, that are read. */
  readonly maxBodyBytes: number;
  readonly signal?: AbortSignal | undefined;
}

/** Failures before there was a connection, so before a request could go out on it. */
const NOT_CONNECTED = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT']);

/** For browsers; the types are those of Node, which has no cache. */
const UNCACHED = { cache: 'no-store' };

/**
 * Sends a request once. Redirects are not followed: to send a body and credentials elsewhere is not for an answer to
 * decide, and 301 to 303 would make a GET of it.
 *
 * @returns never rejects: what goes wrong is a `NoAnswer`, an abort by the signal among it
 */
export async function attempt(
  fetch: typeof globalThis.fetch,
  request: WireRequest,
  { timeoutMs, maxBodyBytes, signal }: AttemptBounds,
): Promise<Answer | NoAnswer> {
  const controller = new AbortController();
  const abort = (): void => controller.abort(signal?.reason);
  let timer: ReturnType<typeof setTimeout> | undefined;
  // Beside the signal, because a fetch that is not listening, or a body that hangs, must not hold us.
  const given = new Promise<NoAnswer>((resolve) => {
    controller.signal.addEventListener('abort', () => resolve(new NoAnswer('aborted', true, controller.signal.reason)));
    timer = setTimeout(() => {
      resolve(new NoAnswer(`no complete answer within ${Math.round(timeoutMs)} ms`, true));
      controller.abort();
    }, timeoutMs);
  });
  signal?.addEventListener('abort', abort);
  if (signal?.aborted) abort();
  try {
    return await Promise.race([given, exchange(fetch, request, maxBodyBytes, controller)]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener('abort', abort);
  }
}

async function exchange(
  fetch: typeof globalThis.fetch,
  { url, method, headers, body }: WireRequest,
  maxBodyBytes: number,
  controller: AbortController,
): Promise<Answer | NoAnswer> {
  let response: Response;
  try {
    response = await fetch(url, {
      method,
      headers,
      ...(body !== undefined && { body: new TextEncoder().encode(body) }),
      redirect: 'manual',
      credentials: 'omit',
      ...UNCACHED,
      signal: controller.signal,
    });
  } catch (cause) {
    const code = codeOf(cause);
    return new NoAnswer(`the network failed (${code ?? String(cause)})`, !NOT_CONNECTED.has(code ?? ''), cause);
  }
  try {
    const bytes = await readUpTo(maxBodyBytes, response);
    if (bytes) {
      const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
      return { status: response.status, headers: response.headers, text };
    }
    controller.abort(); // nobody waits for the rest
    return new NoAnswer(`the answer (${response.status}) is longer than ${maxBodyBytes} bytes`, true);
  } catch (cause) {
    return new NoAnswer(`the answer (${response.status}) was cut short or is no text`, true, cause);
  }
}

/** @returns undefined when there is more */
async function readUpTo(limit: number, response: Response): Promise<Uint8Array | undefined> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const reader = (response.body as ReadableStream<Uint8Array> | null)?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    length += next.value.length;
    if (length > limit) return undefined;
    chunks.push(next.value);
  }
  const all = new Uint8Array(length);
  chunks.reduce((offset, chunk) => {
    all.set(chunk, offset);
    return offset + chunk.length;
  }, 0);
  return all;
}

/** `fetch` of Node hides the system's code in the cause. */
function codeOf(error: unknown): string | undefined {
  const { code, cause } = error as { code?: unknown; cause?: unknown };
  if (typeof code === 'string') return code;
  return typeof cause === 'object' && cause !== null ? codeOf(cause) : undefined;
}
