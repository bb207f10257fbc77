import { createServer, type AddressInfo, type Server, Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import { type Script, ScriptedServer, sendJson } from '../../support/scripted-server.js';
import { waitFor } from '../../support/wait-for.js';
import { CHARGE, MOVES, paymentIntent, stripeAt, transfer, bankAt } from './movements.js';

/** Milliseconds: a deadline that is waited for, and one that nothing should come near. */
const SOON = 300;
const LATE = 10_000;

/** What ends the servers of one test. */
const stops: (() => Promise<unknown>)[] = [];
const server = { current: undefined as unknown as ScriptedServer };

beforeAll(async () => {
  server.current = await ScriptedServer.start();
});
afterEach(async () => {
  server.current.forget();
  await Promise.all(stops.splice(0).map((stop) => stop()));
});
afterAll(() => server.current.stop());

/** Ways for an answer to break once the request has arrived. Each is over at once: nobody waits for the deadline. */
const BROKEN: [string, Script][] = [
  ['the connection is reset', (response) => response.socket!.resetAndDestroy()],
  ['the connection is closed without an answer', (response) => response.socket!.end()],
  ['the connection is reset within the headers', (response) => cut(response.socket!, 'HTTP/1.1 200 OK\r\nContent-')],
  [
    'the connection is closed within the body',
    (response) => response.socket!.end('HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"id":"pi_1"'),
  ],
  [
    'the connection is reset within the body',
    (response) => cut(response.socket!, 'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"id":"pi_1"'),
  ],
  [
    'the connection is closed between chunks',
    (response) => response.socket!.end('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n'),
  ],
  ['what comes back is no HTTP', (response) => response.socket!.end('SSH-2.0-OpenSSH_9.9\r\n')],
  [
    'another protocol is offered',
    (response) => response.writeHead(101, { Upgrade: 'h2c', Connection: 'Upgrade' }).end(),
  ],
  ['the answer has no end', (response) => flood(response.socket!)],
  ['there is a redirect', (response) => response.writeHead(307, { Location: '/elsewhere' }).end()],
  ['the provider asks to send it again', (response) => sendJson(response, 500, {}, { 'Stripe-Should-Retry': 'true' })],
  ['a proxy gives up', (response) => response.writeHead(504, { 'Content-Type': 'text/html' }).end('<h1>Timeout</h1>')],
];

/** Ways for an answer to be on its way for ever. */
const ENDLESS: [string, Script][] = [
  ['no answer comes', () => {}],
  ['the headers dribble in', (response) => dribble(response.socket!, 'HTTP/1.1 200 OK\r\nX-Long: ')],
  ['the body dribbles in', (response) => dribble(response.socket!, 'HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{')],
];

describe.each(MOVES)('%s', (_name, at, _proof) => {
  it.each(BROKEN)('is sent once, and its outcome is unknown, when %s', async (_how, script) => {
    server.current.script = script;

    const started = Date.now();
    const answer = await at(server.current.url, LATE)();

    expect(answer.kind).toBe('unknown');
    expect(Date.now() - started).toBeLessThan(LATE);
    expect(server.current.requests.map(({ method }) => method)).toEqual(['POST']);
    expect(server.current.connections).toHaveLength(1);
  });

  it.each(ENDLESS)('is sent once, and its outcome is unknown after the deadline, when %s', async (_how, script) => {
    server.current.script = script;

    const started = Date.now();
    const answer = await at(server.current.url, SOON)();

    expect(answer).toEqual({ kind: 'unknown', reason: expect.stringContaining(`${SOON} ms`) });
    expect(Date.now() - started).toBeLessThan(LATE);
    expect(server.current.requests).toHaveLength(1);
    expect(server.current.connections).toHaveLength(1);
  });

  it('is sent once, and its outcome is unknown, when a kept connection breaks under it', async () => {
    const call = at(server.current.url);
    server.current.answer(429, {});
    await call();
    server.current.script = (response) => response.socket!.resetAndDestroy();

    expect((await call()).kind).toBe('unknown');
    expect(server.current.requests).toHaveLength(2);
    expect(server.current.connections).toHaveLength(1);
  });

  it('is unknown when the connection is reset before the request was read to its end', async () => {
    const { url, connections } = await startTcp((socket) => socket.once('data', () => socket.resetAndDestroy()));

    expect((await at(url)()).kind).toBe('unknown');
    expect(connections).toHaveLength(1);
  });

  it('is sent on a new connection where the provider has closed the kept one', async () => {
    const call = at(server.current.url);
    server.current.answer(429, {});
    await call();
    const [kept] = server.current.connections;
    const closed = new Promise((resolve) => kept!.once('close', resolve));
    kept!.end();
    await closed;

    expect((await call()).kind).toBe('not-happened');
    expect(server.current.requests).toHaveLength(2);
    expect(server.current.connections).toHaveLength(2);
  });

  it('has not happened when the connection is refused', async () => {
    const { url, stop } = await startTcp(() => {});
    await stop();

    expect(await at(url)()).toEqual({ kind: 'not-happened', reason: expect.stringContaining('ECONNREFUSED') });
  });

  it('has not happened when there is no such host', async () => {
    const answer = await at('http://provider.invalid')();

    expect(answer).toEqual({ kind: 'not-happened', reason: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) });
  });

  it('has not happened when the connection is not answered in time', async () => {
    expect((await at(await startDeaf(), SOON)()).kind).toBe('not-happened');
  });

  it('has not happened when the connection cannot be made safe, and nothing of it was shown', async () => {
    const { url, connections, received } = await startTcp((socket) => socket.resume());

    expect((await at(url.replace('http:', 'https:'), SOON)()).kind).toBe('not-happened');
    expect(connections).toHaveLength(1);
    expect(received.join('')).not.toContain('POST');
  });
});

describe('an answer without an end', () => {
  it('is read up to a bound', async () => {
    server.current.script = (response) => flood(response.socket!);

    for (const provider of [stripeAt(server.current.url, LATE), bankAt(server.current.url, LATE)]) {
      const answer = await provider.charge(CHARGE);
      expect(answer).toEqual({ kind: 'unknown', reason: expect.stringMatching(/longer than \d+ bytes/) });
    }
  });
});

describe('a kept connection', () => {
  it('carries one call after the other', async () => {
    server.current.answer(200, paymentIntent());
    const stripe = stripeAt(server.current.url);
    for (let call = 0; call < 3; call++) expect((await stripe.charge(CHARGE)).kind).toBe('effect');

    server.current.answer(201, transfer());
    const bank = bankAt(server.current.url);
    for (let call = 0; call < 3; call++) expect((await bank.charge(CHARGE)).kind).toBe('effect');

    expect(server.current.requests).toHaveLength(6);
    expect(server.current.connections).toHaveLength(2);
  });

  it('is not taken for an idle one while it waits for an answer', async () => {
    server.current.script = (response) => setTimeout(() => sendJson(response, 200, paymentIntent()), 4_500);

    expect((await stripeAt(server.current.url, 10_000).charge(CHARGE)).kind).toBe('effect');
  });
});

function cut(socket: Socket, text: string): void {
  socket.write(text, () => socket.resetAndDestroy());
}

function dribble(socket: Socket, text: string): void {
  socket.write(text);
  const timer = setInterval(() => socket.write('x'), 50);
  socket.once('close', () => clearInterval(timer));
}

function flood(socket: Socket): void {
  const megabyte = Buffer.alloc(1024 * 1024, ' ');
  socket.write('HTTP/1.1 200 OK\r\n\r\n');
  const pour = (): void => {
    while (!socket.destroyed && socket.write(megabyte));
  };
  socket.on('drain', pour);
  pour();
}

async function startTcp(accept: (socket: Socket) => void) {
  const connections: Socket[] = [];
  const received: string[] = [];
  const tcp: Server = createServer((socket) => {
    connections.push(socket);
    socket.on('error', () => {});
    socket.on('data', (chunk) => received.push(chunk.toString('latin1')));
    accept(socket);
  });
  await new Promise<void>((resolve) => tcp.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(tcp.address() as AddressInfo).port}`;
  const stop = (): Promise<unknown> => {
    for (const socket of connections) socket.destroy();
    return new Promise((resolve) => tcp.close(resolve)); // also when it is closed already
  };
  stops.push(stop);
  return { url, connections, received, stop };
}

/** A server that accepts nothing, and whose queue is full: the handshake of the next connection is not answered. */
async function startDeaf(): Promise<string> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     const server = require('node:net').createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
       parentPort.postMessage(server.address().port);
       Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
     });`,
    { eval: true },
  );
  const port = await new Promise<number>((resolve) => worker.once('message', resolve));
  const waiting: Socket[] = [];
  for (let place = 0; place < 8; place++) waiting.push(new Socket().connect(port, '127.0.0.1').on('error', () => {}));
  await waitFor(() => waiting.some(({ connecting }) => !connecting), { description: 'the queue to fill' });
  stops.push(() => {
    for (const socket of waiting) socket.destroy();
    return worker.terminate();
  });
  return `http://127.0.0.1:${port}`;
}
