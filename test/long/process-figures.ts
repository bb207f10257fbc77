import { readdir, readFile, readlink } from 'node:fs/promises';

/** Resident memory of a process in MB; 0 when it is gone, or where there is no /proc. */
export async function residentMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '');
  return Math.round(Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024);
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
