import { parseArgs } from 'node:util';

const USAGE = `npm run bench -- [options]

  --seconds N        length of one round (3)
  --rounds N         rounds of each series; the series take turns (5)
  --connections N    concurrent clients (16)
  --patience N       seconds to wait for other programs to be quiet, and to repeat rounds that they spoilt (30)
  --only A,B         only these: unkeyed, keyed, replay, refusal, contention, wire, storage
  --against DIR,DIR  measure other checkouts' builds beside this one, round by round
  --no-ceiling       leave the hand-written server out`;

export const PARTS = ['unkeyed', 'keyed', 'replay', 'refusal', 'contention', 'wire', 'storage'];

/**
 * Reads the command line. Ends the process with the usage where it cannot be read.
 *
 * @returns {{ seconds: number, rounds: number, connections: number, patience: number, only: string[], against: string[], ceiling: boolean }}
 */
export function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        seconds: { type: 'string', default: '3' },
        rounds: { type: 'string', default: '5' },
        connections: { type: 'string', default: '16' },
        patience: { type: 'string', default: '30' },
        only: { type: 'string', default: PARTS.join() },
        against: { type: 'string' },
        'no-ceiling': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) throw new Error('');
    const only = values.only.split(',');
    const unknown = only.find((part) => !PARTS.includes(part));
    if (unknown !== undefined) throw new Error(`--only knows no "${unknown}"`);
    return {
      seconds: positive('seconds', values.seconds),
      rounds: positive('rounds', values.rounds),
      connections: positive('connections', values.connections),
      patience: positive('patience', values.patience),
      only,
      against: values.against?.split(',') ?? [],
      ceiling: !values['no-ceiling'],
    };
  } catch (error) {
    console.error(error.message ? `${error.message}\n\n${USAGE}` : USAGE);
    process.exit(error.message ? 2 : 0);
  }
}

function positive(name, text) {
  const number = Number(text);
  if (number > 0) return number;
  throw new Error(`--${name} must be a number above 0`);
}
