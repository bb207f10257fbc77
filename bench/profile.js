/**
 * Where the service's processor time goes under one scenario: `node bench/profile.js keyed`, after `npm run build`. The
 * profile is left for Chrome's developer tools.
 */
import { readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ServerProcess } from './child-process.js';
import { ThrowawayPostgres } from './database.js';
import { Series } from './series.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '8' },
    connections: { type: 'string', default: '16' },
    checkout: { type: 'string', default: fileURLToPath(new URL('..', import.meta.url)) },
    top: { type: 'string', default: '40' },
  },
});
const [seconds, connections, top] = [values.seconds, values.connections, values.top].map(Number);

const postgres = await ThrowawayPostgres.start();
const database = await postgres.createDatabase('bench_profile', values.checkout);
try {
  for (const scenario of positionals.length > 0 ? positionals : ['keyed']) await profile(scenario);
} finally {
  await database.close();
  await postgres.stop();
}

async function profile(scenario) {
  const file = join(tmpdir(), `${scenario}-${process.pid}.cpuprofile`);
  const preload = new URL('profiler.js', import.meta.url).href;
  const server = await ServerProcess.start(
    join(values.checkout, 'dist/src/main.js'),
    { DATABASE_URL: database.url, SEED_DEMO_TENANTS: 'true', LOG_LEVEL: 'error', RATE_LIMIT: '0', PROFILE: file },
    ['--import', preload],
  );
  try {
    const series = new Series(scenario, { name: 'service', server, database });
    await series.warmUp(connections);
    await series.round({ seconds: 2, connections });
    await server.toldOn('SIGUSR2', 'profiling');
    const { rate, processor } = await series.round({ seconds, connections });
    await server.toldOn('SIGUSR2', 'profiled');
    await series.prove();
    console.log(
      `\n# ${scenario}: ${rate.toFixed(0)} requests/s, ${(processor / 1_000).toFixed(2)} ms CPU each, ${file}`,
    );
    report(JSON.parse(await readFile(file, 'utf8')), processor);
  } finally {
    await server.stop();
  }
}

/** @param {{ nodes: any[], samples: number[], timeDeltas: number[] }} profile */
function report({ nodes, samples, timeDeltas }, processor) {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  for (const node of nodes) for (const child of node.children ?? []) byId.get(child).parent = node;
  const [own, ofPackage, inclusive] = [new Map(), new Map(), new Map()];
  let busy = 0;
  for (const [index, id] of samples.entries()) {
    const node = byId.get(id);
    const { functionName } = node.callFrame;
    if (functionName === '(idle)') continue;
    const time = timeDeltas[index];
    busy += time;
    add(own, nameOf(node), time);
    add(ofPackage, packageOf(node), time);
    const path = new Set();
    for (let at = node; at; at = at.parent) path.add(nameOf(at));
    for (const name of path) add(inclusive, name, time);
  }
  const show = (title, times, count) => {
    console.log(`\n${title}`);
    for (const [name, time] of [...times].sort((a, b) => b[1] - a[1]).slice(0, count)) {
      const part = time / busy;
      console.log(`${(100 * part).toFixed(1).padStart(6)} %  ${((part * processor) / 1_000).toFixed(3)} ms  ${name}`);
    }
  };
  show('by package', ofPackage, 25);
  show('by function, itself', own, top);
  show('by function, with what it calls', inclusive, 2 * top);
}

function add(times, name, time) {
  times.set(name, (times.get(name) ?? 0) + time);
}

function nameOf({ callFrame: { functionName, url, lineNumber } }) {
  const file = url.replace(/^.*\/node_modules\//, '').replace(/^.*\/dist\//, 'dist/');
  return `${functionName || '(anonymous)'}  ${file}${url ? `:${lineNumber + 1}` : ''}`;
}

function packageOf({ callFrame: { functionName, url } }) {
  const [, dependency] = /\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url) ?? [];
  if (dependency) return dependency;
  const [, own] = /\/dist\/(src\/[^/]+)/.exec(url) ?? [];
  if (own) return own;
  return url.startsWith('node:') ? url.replace(/^(node:(internal\/)?[^/]+).*/, '$1') : functionName || 'native';
}
