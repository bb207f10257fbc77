import { readFile, writeFile } from 'node:fs/promises';
import { clientTypes, type Described } from './client-types.js';

/** `npm run client:types`: writes the client's types from `openapi.json`. */
const document = JSON.parse(await readFile('openapi.json', 'utf8')) as Described;
await writeFile('src/client/api-types.ts', clientTypes(document));
