import { Agent, request } from 'node:http';
import { randomUUID } from 'node:crypto';

/** An answer as it came over the wire. */
export interface ApiResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly bytes: Buffer;
  readonly text: string;
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- tests look into bodies of every shape
  readonly body: any;
}

export interface ApiRequest {
  readonly key?: string;
  readonly headers?: Record<string, string | string[]>;
  /** Sent as JSON; a string or Buffer is sent as it is. */
  readonly body?: unknown;
}

/** A client that never retries and hides nothing: what the tests know of a request is what was sent and came back. */
export class ApiClient {
  private readonly agent = new Agent({ keepAlive: false });

  constructor(
    private readonly baseUrl: string,
    private readonly apiKey: string | undefined,
  ) {}

  get(path: string, headers: Record<string, string> = {}): Promise<ApiResponse> {
    return this.send('GET', path, { headers });
  }

  post(path: string, body: unknown, key: string | undefined = randomUUID(), headers = {}): Promise<ApiResponse> {
    return this.send('POST', path, { body, headers, ...(key === undefined ? {} : { key }) });
  }

  put(path: string, body: unknown, headers: Record<string, string> = {}): Promise<ApiResponse> {
    return this.send('PUT', path, { body, headers });
  }

  patch(path: string, body: unknown, headers: Record<string, string> = {}): Promise<ApiResponse> {
    return this.send('PATCH', path, { body, headers });
  }

  delete(path: string, headers: Record<string, string> = {}): Promise<ApiResponse> {
    return this.send('DELETE', path, { headers });
  }

  /** @returns the answer; rejects only when none arrived */
  send(method: string, path: string, { key, headers, body }: ApiRequest = {}): Promise<ApiResponse> {
    const bytes = bytesOf(body);
    return new Promise((resolve, reject) => {
      const outgoing = request(new URL(path, this.baseUrl), {
        method,
        agent: this.agent,
        headers: {
          ...(this.apiKey === undefined ? {} : { Authorization: `Bearer ${this.apiKey}` }),
          ...(bytes ? { 'Content-Type': 'application/json', 'Content-Length': bytes.length } : {}),
          ...(key === undefined ? {} : { 'Idempotency-Key': key }),
          ...headers,
        },
      });
      outgoing.on('error', reject);
      outgoing.on('response', (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
        incoming.on('error', reject);
        incoming.on('end', () => {
          const all = Buffer.concat(chunks);
          const text = all.toString();
          const isJson = /json/.test(incoming.headers['content-type'] ?? '') && text !== '';
          resolve({
            status: incoming.statusCode!,
            headers: incoming.headers as Record<string, string | undefined>,
            bytes: all,
            text,
            body: isJson ? JSON.parse(text) : undefined,
          });
        });
      });
      outgoing.end(bytes);
    });
  }
}

function bytesOf(body: unknown): Buffer | undefined {
  if (body === undefined) return undefined;
  if (Buffer.isBuffer(body)) return body;
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body));
}

/** A new order that is valid, with what a test wants different. */
export function newOrder(different: Record<string, unknown> = {}): Record<string, unknown> {
  return { currency: 'EUR', items: [{ sku: 'tea', quantity: 2, unitAmount: 450 }], ...different };
}
