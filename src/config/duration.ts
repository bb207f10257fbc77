const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const LONGEST = 3_650 * UNITS.d;

/**
 * Reads a duration as settings write it: a whole number and a unit (`500ms`, `30s`, `5m`, `24h`, `30d`).
 *
 * @returns milliseconds, or `undefined` when the text is no such duration or longer than ten years
 */
export function parseDuration(text: string): number | undefined {
  const match = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text);
  if (!match) return undefined;
  const milliseconds = Number(match[1]) * UNITS[match[2] as keyof typeof UNITS];
  return milliseconds <= LONGEST ? milliseconds : undefined;
}
