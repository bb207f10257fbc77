import { Buffer } from 'node:buffer';
import { METHODS } from 'node:http';
import { type Random } from './random.js';

/** What is asked of whom. */
export interface Target {
  readonly method: string;
  readonly target: string;
}

const ODD_PATHS = [
  '*',
  '',
  '?',
  '/',
  '//',
  '/v1',
  '/v1//orders',
  '//v1/orders',
  '/v1/orders/',
  '/V1/ORDERS',
  '/v1/orders/../orders',
  '/./v1/orders',
  '/v1/orders/%2e%2e',
  '/v1/orders/..%2f..%2fhealth%2flive',
  '/v1/orders/%',
  '/v1/orders/%zz',
  '/v1/orders/%00',
  '/v1/orders/%c0%af',
  '/v1/orders/%ed%a0%80',
  '/v1/orders;x=1',
  '/v1/orders#fragment',
  '/v1/orders/by-external-ref/',
  '/v1/orders/by-external-ref/%00',
  '/v1/orders/by-external-ref/%',
  '/v1/orders/by-external-ref/%ff',
  '/v1/orders/by-external-ref/%F0%9F%8D%B5',
  '/v1/orders/by-external-ref/a%2fb',
  `/v1/orders/by-external-ref/${'%F0%9F%8D%B5'.repeat(256)}`,
  `/v1/orders/by-external-ref/${'x'.repeat(256)}`,
  '/v1/idempotency-keys/%00',
  '/v1/idempotency-keys/%22',
  '/v1/idempotency-keys/%E2%82%AC',
  '/v1/idempotency-keys/%',
  '/problems/constructor',
  '/problems/__proto__',
  '/problems/%00',
  '/docs/../../etc/passwd',
  '/docs/%2e%2e/%2e%2e/package.json',
  '/docs/swagger-ui.css%00',
  '/docs/%',
  '\\v1\\orders',
  'v1/orders',
  'http://127.0.0.1/v1/orders',
  'http://evil.example:99999/v1/orders',
  'http://[::1/v1/orders',
  'http:///v1/orders',
  'ftp://x/v1/orders',
  'evil.example:443',
  '/v1/orders HTTP/1.1 x',
  '/v1/or ders',
  '/v1/orders\t',
  '/v1/ørders',
  '/v1/orders/\x00',
  `/v1/orders/${'x'.repeat(5_000)}`,
  `/${'a/'.repeat(4_000)}`,
  `/${'x'.repeat(20_000)}`,
  '/health/ready/',
  '/health',
  '/openapi.yaml',
];

const STRANGE_METHODS = [
  ...METHODS,
  'get',
  'post',
  'Post',
  'FOO',
  'PRI',
  'BREW',
  'GET/',
  '',
  'P\x00ST',
  'X'.repeat(300),
];

const cursor = (parts: unknown): string => Buffer.from(JSON.stringify(parts)).toString('base64url');

function query(random: Random): string {
  const value = (): string =>
    random.weighted([
      [2, () => random.pick(['1', '100', '0', '101', '-1', '1e1', '', '%31', '٣', 'pending', 'cancelled', 'ref-1'])],
      [
        1,
        () => random.pick(['%00', '%', '%ed%a0%80', '%ff', '%F0%9F%8D%B5', "'--", '[]', '\x01', '+', 'x'.repeat(600)]),
      ],
      [
        2,
        () =>
          random.pick([
            cursor(['9999999999999999', random.uuid()]),
            cursor(['0', random.uuid()]),
            cursor(['1', 'x']),
            cursor(['-1', random.uuid()]),
            cursor([1, 2]),
            cursor({}),
            cursor(['\0', '']),
            'bm8',
            '=',
          ]),
      ],
    ]);
  const name = (): string =>
    random.pick(['limit', 'after', 'status', 'externalRef', 'x', '__proto__', 'constructor', '%', '']) +
    random.pick(['', '', '', '', '[]', '[a]', '[__proto__][x]', '[0][0]', '[', '%5B%5D', '.a']);
  const parts = Array.from({ length: random.pick([1, 1, 2, 3]) }, () => `${name()}=${value()}`);
  if (random.chance(0.03)) parts.push(...Array.from({ length: 1_500 }, (_, n) => `a=${n}`));
  if (random.chance(0.03)) parts.push(`a${'[b]'.repeat(1_000)}=1`);
  return `?${parts.join(random.pick(['&', '&', '&&', ';']))}`;
}

/** A route of the service as it is meant, or something near it, or something far off. */
export function anyTarget(random: Random): Target {
  const order = `/v1/orders/${random.uuid(60)}`;
  const ref = `/v1/orders/by-external-ref/ref-${random.between(0, 400)}`;
  const { method, target } = random.weighted<Target>([
    [40, () => ({ method: 'POST', target: '/v1/orders' })],
    [10, () => ({ method: 'PUT', target: order })],
    [7, () => ({ method: 'PATCH', target: order })],
    [4, () => ({ method: 'DELETE', target: order })],
    [4, () => ({ method: 'PUT', target: `${order}/status` })],
    [5, () => ({ method: 'GET', target: order })],
    [6, () => ({ method: 'PUT', target: ref })],
    [6, () => ({ method: 'GET', target: `/v1/orders${query(random)}` })],
    [2, () => ({ method: 'GET', target: `/v1/idempotency-keys/shared-${random.between(0, 30)}` })],
    [2, () => ({ method: 'GET', target: random.pick(['/health/live', '/health/ready', '/openapi.json', '/docs']) })],
    [1, () => ({ method: 'GET', target: '/problems/not-found' })],
    [12, () => ({ method: random.pick(['GET', 'POST', 'PUT', 'DELETE']), target: random.pick(ODD_PATHS) })],
  ]);
  return {
    method: random.chance(0.92) ? method : random.pick(STRANGE_METHODS),
    target: !target.includes('?') && random.chance(0.06) ? target + query(random) : target,
  };
}
