import type { Accident } from './accident.js';
import { isColourful, paint } from './paint.js';
import type { Outcome, PlayedAccident } from './played-accident.js';
import type { Counts } from './target.js';
import { type Difference, differences } from './verdict.js';
import type { Sighting } from './witness.js';

const WIDTH = 92;
const OPENING = [
  'What goes wrong between machines, with and without',
  'Each accident below is caused in the same way to two servers: to the service as it is built, and to a naive twin that has ' +
    'the same API and is written as one writes it when one does not think of repeats. Both get the same requests of the ' +
    'same client, which sends them again under the same key until it is answered; the twin does not look at keys.',
  'Counted are rows (orders, payments, and bookings: what the books say was taken), events, charges at the payment ' +
    'provider, and mails at the mail server. "should" is what is right.',
];
const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{5}([0-9a-f]{7})/g;
const { bold, dim, green, red } = paint(isColourful(process.stdout));

/** What is going to be shown, and by what it can be told. */
export function opening(): string {
  const [first, ...paragraphs] = OPENING;
  return [bold(first!), ...paragraphs.map(wrapped), ''].join('\n\n');
}

/** The title and what happens. */
export function prologue(number: number, { title, story }: Accident): string {
  return `${bold(`${number}. ${title}`)}\n${wrapped(story)}\n`;
}

/** What each of the two clients saw, what there is, and what follows from it. */
export function scene({ leaves, with: careful, without: naive }: PlayedAccident): string {
  return [
    sightings('With the mechanisms, the client saw', careful),
    sightings('Without them', naive),
    table(leaves, careful.counts, naive.counts),
    `   with      ${conclusion(leaves, careful, 'harmless')}`,
    `   without   ${conclusion(leaves, naive, 'accident')}\n`,
  ].join('\n');
}

/** One line for each accident, and the last word. */
export function ending(played: readonly PlayedAccident[], database: string): string {
  const rows = played.map(({ name, leaves, isShown, with: careful, without }) => ({
    mark: isShown ? green('✓') : red('✗'),
    cells: [name, inWords(leaves, careful), inWords(leaves, without)],
  }));
  const heading = ['', 'with', 'without'];
  const widths = heading.map((text, column) =>
    Math.max(text.length, ...rows.map(({ cells }) => cells[column]!.length)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => cell.padEnd(widths[column]!))
      .join('   ')
      .trimEnd();
  const failed = played.filter(({ isShown }) => !isShown).map(({ name }) => name);
  return [
    bold(`     ${line(heading)}`),
    ...rows.map(({ mark, cells }) => `   ${mark} ${line(cells)}`),
    '',
    failed.length === 0
      ? `   Each was harmless with the mechanisms and did its harm without. (${database})`
      : red(`   Not shown as it should be: ${failed.join(', ')}. (${database})`),
  ].join('\n');
}

function sightings(heading: string, { seen, notes, error }: Outcome): string {
  const lines = joined(seen.map(sighting)).map((line) => `     ${line}`);
  const remarks = notes.map((note) => dim(`     ${note}`));
  return [`   ${heading}`, ...lines, ...remarks, ...(error ? [red(`     ${error}`)] : []), ''].join('\n');
}

function sighting({ request, status, id, code, replayed }: Sighting): string {
  const answer = status === undefined ? dim('no answer: the connection broke') : answerOf(status, id, code, replayed);
  return `${shortened(request)}  →  ${answer}`;
}

function answerOf(status: number, id: string | undefined, code: string | undefined, replayed: boolean): string {
  const what = code ?? (id === undefined ? undefined : shortened(id));
  return [String(status), what, replayed ? 'Idempotent-Replayed: true' : undefined].filter(Boolean).join('  ');
}

/** Ids by their last seven digits: the first ones are the time. */
function shortened(text: string): string {
  return text.replace(UUID, '…$1');
}

/** Equal lines behind each other become one. */
function joined(lines: readonly string[]): string[] {
  const runs: { line: string; times: number }[] = [];
  for (const line of lines) {
    const last = runs.at(-1);
    if (last?.line === line) last.times += 1;
    else runs.push({ line, times: 1 });
  }
  return runs.map(({ line, times }) => (times === 1 ? line : `${line} (${times} times)`));
}

function table(leaves: Counts, careful: Counts, naive: Counts): string {
  const lines = Object.entries(leaves).map(([what, number]) => {
    const cells = [careful[what], naive[what], number].map((value) => String(value ?? '?'));
    const line = `     ${what.padEnd(16)}${cells.map((cell) => cell.padStart(10)).join('')}`;
    return naive[what] === number ? line : bold(line);
  });
  return [dim(`     ${''.padEnd(16)}      with   without    should`), ...lines, ''].join('\n');
}

function conclusion(leaves: Counts, outcome: Outcome, hoped: Outcome['verdict']): string {
  const text = inWords(leaves, outcome);
  return outcome.verdict === hoped ? `${green('✓')} ${text}` : `${red('✗')} ${text}`;
}

/** What the counts say, such as `1 order too many`. */
function inWords(leaves: Counts, { verdict, counts, error }: Outcome): string {
  if (error !== undefined) return 'could not be played to its end';
  if (verdict === 'harmless') return 'harmless';
  return differences(leaves, counts).map(differenceInWords).join(', ');
}

function differenceInWords({ what, count, leaves }: Difference): string {
  if (Number.isNaN(count)) return `${what} not counted`;
  const by = Math.abs(count - leaves);
  const things = `${by} ${by === 1 ? what.replace(/s$/, '').replace(/^edits /, 'edit ') : what}`;
  if (leaves === 0) return things; // of these even one is too many
  return `${things} too ${count > leaves ? 'many' : 'few'}`;
}

function wrapped(text: string): string {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1)!;
    if (line.length + word.length < WIDTH - 3) lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
    else lines.push(word);
  }
  return lines.map((line) => `   ${line}`).join('\n');
}
