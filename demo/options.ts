import { parseArgs } from 'node:util';
import type { Accident } from './accident.js';
import { ACCIDENTS } from './accidents/index.js';
import { SIDE_NAMES, type SideName } from './side.js';

export const USAGE = `npm run demo -- [options] [accident ...]

Plays the classic accidents, all or those that are named, to the service and to a naive twin, and counts.

  --list              the names of the accidents
  --json FILE         writes the result to a file as well
  --with SIDE         who plays the part of the careful one (service)
  --without SIDE      who plays the part of the naive one (naive)
                      SIDE is service or naive: exchanged, the demonstration has to fail
  --help`;

/** Thrown for arguments that make no sense. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

export interface Options {
  readonly accidents: readonly Accident[];
  readonly with: SideName;
  readonly without: SideName;
  readonly list: boolean;
  readonly help: boolean;
  readonly json: string | undefined;
}

/** @throws UsageError */
export function readOptions(args: readonly string[]): Options {
  const { values, positionals } = parsed(args);
  const known = ACCIDENTS.map(({ name }) => name);
  const unknown = positionals.filter((name) => !known.includes(name));
  if (unknown.length > 0)
    throw new UsageError(`No accident is called ${unknown.join(', ')}. There are ${known.join(', ')}.`);
  return {
    accidents: ACCIDENTS.filter(({ name }) => positionals.length === 0 || positionals.includes(name)),
    with: sideIn(values.with),
    without: sideIn(values.without),
    list: values.list,
    help: values.help,
    json: values.json,
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        list: { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
        json: { type: 'string' },
        with: { type: 'string', default: 'service' },
        without: { type: 'string', default: 'naive' },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

function sideIn(text: string): SideName {
  const side = SIDE_NAMES.find((name) => name === text);
  if (side === undefined) throw new UsageError(`A side is ${SIDE_NAMES.join(' or ')}, not "${text}".`);
  return side;
}
