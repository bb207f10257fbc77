/**
 * Compiles this folder into dist/demo, beside the built service, with the compiler that Jest uses: `npm run build` leaves it
 * out, so that nothing naive is ever delivered. Types are checked by `npm run typecheck`.
 */
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformFile } from '@swc/core';

const FROM = fileURLToPath(new URL('.', import.meta.url));
const TO = fileURLToPath(new URL('../dist/demo', import.meta.url));

await rm(TO, { recursive: true, force: true });
for (const file of await readdir(FROM, { recursive: true })) {
  if (!file.endsWith('.ts')) continue;
  const { code } = await transformFile(join(FROM, file), { sourceMaps: 'inline' });
  const target = join(TO, file.replace(/\.ts$/, '.js'));
  await mkdir(dirname(target), { recursive: true });
  await writeFile(target, code);
}
