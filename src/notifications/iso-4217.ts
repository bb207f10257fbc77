/** ISO 4217, list one: the currencies whose minor unit is not a hundredth, by its exponent. */
const EXPONENTS: readonly (readonly [exponent: number, currencies: string])[] = [
  [0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF'],
  [3, 'BHD IQD JOD KWD LYD OMR TND'],
  [4, 'CLF UYW'],
];

const EXPONENT_OF = new Map(
  EXPONENTS.flatMap(([exponent, currencies]) => currencies.split(' ').map((currency) => [currency, exponent])),
);

/**
 * An amount as people read it, such as `EUR 1,234.50` or `JPY 900`. `Intl` only groups the digits: the exponents it
 * knows are those of daily use (it writes forints and dinars without any), and a receipt would be out by a hundred.
 *
 * @param minorUnits an integer of up to 2^53 - 1, exact
 */
export function amountText(minorUnits: number, currency: string): string {
  const exponent = EXPONENT_OF.get(currency) ?? 2;
  const digits = String(minorUnits).padStart(exponent + 1, '0');
  const whole = BigInt(digits.slice(0, digits.length - exponent)).toLocaleString('en');
  const fraction = exponent === 0 ? '' : `.${digits.slice(-exponent)}`;
  return `${currency} ${whole}${fraction}`;
}
