const MONTHS = 'JanFebMarAprMayJunJulAugSepOctNovDec';
const IMF_FIXDATE = /^\w{3}, (\d{2}) (\w{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const RFC_850 = /^\w{6,9}, (\d{2})-(\w{3})-(\d{2}) (\d{2}):(\d{2}):(\d{2}) GMT$/;
const ASCTIME = /^\w{3} (\w{3}) ([ \d]\d) (\d{2}):(\d{2}):(\d{2}) (\d{4})$/;

/**
 * An HTTP date in any of the three forms that a recipient must accept (RFC 9110, section 5.6.7), and in no other.
 *
 * @param now milliseconds since 1970: a year of two digits that would lie more than 50 years ahead is one of the past
 * @returns milliseconds since 1970; undefined when it is none
 */
export function parseHttpDate(text: string, now: number): number | undefined {
  const fixed = IMF_FIXDATE.exec(text);
  if (fixed) return dateOf(fixed[3], fixed[2], fixed[1], fixed.slice(4));
  const old = RFC_850.exec(text);
  if (old) {
    const thisYear = new Date(now).getUTCFullYear();
    const year = Math.floor(thisYear / 100) * 100 + Number(old[3]);
    return dateOf(String(year > thisYear + 50 ? year - 100 : year), old[2], old[1], old.slice(4));
  }
  const asctime = ASCTIME.exec(text);
  return asctime ? dateOf(asctime[6], asctime[1], asctime[2], asctime.slice(3, 6)) : undefined;
}

function dateOf(year = '', monthName = '', day = '', time: string[]): number | undefined {
  const month = MONTHS.indexOf(monthName) / 3;
  const [hours = 0, minutes = 0, seconds = 0] = time.map(Number);
  if (!Number.isInteger(month) || month < 0 || hours > 23 || minutes > 59 || seconds > 60) return undefined;
  const date = new Date(Date.UTC(Number(year), month, Number(day), hours, minutes, seconds));
  return date.getUTCMonth() === month ? date.getTime() : undefined; // 31 February would be in March
}
