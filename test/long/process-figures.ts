import { readdir, readFile, readlink } from 'node:fs/promises';
import { type ServiceProcess } from '../support/service-process.js';
import { waitFor } from '../support/wait-for.js';

/** As NODE_OPTIONS of a service: it tells {@link heapMegabytes} what it holds. */
export const REPORT_HEAP = `--import=${new URL('report-heap.js', import.meta.url).href}`;

/**
 * What the service holds on to, in MB, buffers included: what is left after a garbage collection. Resident memory says
 * little about that. It rises for as long as Node sees no reason to clean up, and hardly ever sinks again.
 */
export async function heapMegabytes(service: ServiceProcess): Promise<number> {
  const reports = () => [...service.output.matchAll(/^in use after collection: ([\d.]+) MB$/gm)];
  const { length } = reports();
  service.signal('SIGUSR2');
  const report = await waitFor(() => reports()[length], { description: 'the service to tell what it holds' });
  return Number(report[1]);
}

/** How many TCP connections a process holds that were made to that port of its own. */
export async function openConnections(pid: number, port: number): Promise<number> {
  const inodes = new Set<string>();
  for (const name of await readdir(`/proc/${pid}/fd`)) {
    const link = await readlink(`/proc/${pid}/fd/${name}`).catch(() => ''); // closed meanwhile
    const inode = /^socket:\[(\d+)\]$/.exec(link)?.[1];
    if (inode !== undefined) inodes.add(inode);
  }
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const LISTENING = '0A';
  const rows = (await readFile(`/proc/${pid}/net/tcp`, 'utf8')).trim().split('\n').slice(1);
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter((columns) => columns[1]!.endsWith(local) && columns[3] !== LISTENING && inodes.has(columns[9]!)).length;
}
