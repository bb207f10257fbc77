import { problemType } from '../http/problem.js';

export const KeyMissing = problemType({
  code: 'idempotency-key-missing',
  status: 400,
  title: 'The request needs an Idempotency-Key',
  underKey: 'released',
  explanation: 'This route can only be repeated safely under a key, and the request has none. Nothing has happened.',
  remedy:
    'Make one key for each operation that you mean to happen once (a UUID will do), keep it with the request, and send it in the Idempotency-Key header on every attempt.',
});

export const KeyInvalid = problemType({
  code: 'idempotency-key-invalid',
  status: 400,
  title: 'The Idempotency-Key is malformed',
  underKey: 'released',
  explanation:
    'A key is 1 to 255 printable ASCII characters, bare or as one string in double quotes, in one header line.',
  remedy: 'Send a well-formed key. Nothing has happened yet, so a new key is safe.',
});

export const KeyInUse = problemType({
  code: 'idempotency-key-in-use',
  status: 409,
  title: 'A request with this Idempotency-Key is still running',
  underKey: 'released',
  explanation: 'The first request with this key has not ended yet, and this one has waited for it as long as it may.',
  remedy:
    'Send the same request with the same key again after the time in Retry-After, and you get the outcome of the first.',
});

export const KeyReused = problemType({
  code: 'idempotency-key-reused',
  status: 422,
  title: 'The Idempotency-Key was used for another request',
  underKey: 'released',
  explanation: 'A key belongs to one request: the same method, path, query and body. This one differs from the first.',
  remedy: 'If you mean a new operation, make a new key. If you meant a retry, send what you sent the first time.',
});
