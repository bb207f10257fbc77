type Paint = (text: string) => string;

/** https://no-color.org: present and not empty. */
export function isColourful({ isTTY }: { isTTY?: boolean }, { NO_COLOR = '', TERM } = process.env): boolean {
  return isTTY === true && NO_COLOR === '' && TERM !== 'dumb';
}

export function paint(colourful: boolean): Record<'bold' | 'dim' | 'green' | 'red', Paint> {
  const with_ =
    (on: number, off: number): Paint =>
    (text) =>
      colourful ? `\x1b[${on}m${text}\x1b[${off}m` : text;
  return { bold: with_(1, 22), dim: with_(2, 22), green: with_(32, 39), red: with_(31, 39) };
}
