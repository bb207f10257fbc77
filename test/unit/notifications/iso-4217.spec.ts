import { describe, expect, it } from '@jest/globals';
import { amountText } from '../../../src/notifications/iso-4217.js';

describe('an amount in a mail', () => {
  it.each([
    [900, 'EUR', 'EUR 9.00'],
    [5, 'USD', 'USD 0.05'],
    [123_456_789, 'GBP', 'GBP 1,234,567.89'],
    [900, 'JPY', 'JPY 900'],
    [1_000_000, 'KRW', 'KRW 1,000,000'],
    [1_234, 'KWD', 'KWD 1.234'],
    [7, 'BHD', 'BHD 0.007'],
    [12_345, 'CLF', 'CLF 1.2345'],
    [0, 'EUR', 'EUR 0.00'],
  ])('of %d minor units of %s reads %s', (minorUnits, currency, text) => {
    expect(amountText(minorUnits, currency)).toBe(text);
  });

  it.each([
    [17_500, 'HUF', 'HUF 175.00'],
    [1_000, 'IQD', 'IQD 1.000'],
    [5_000, 'COP', 'COP 50.00'],
  ])(
    'of %d %s has the decimals of ISO 4217 and not those of daily use, which Intl knows',
    (minorUnits, currency, text) => {
      expect(amountText(minorUnits, currency)).toBe(text);
    },
  );

  it('loses no digit of the largest', () => {
    expect(amountText(Number.MAX_SAFE_INTEGER, 'EUR')).toBe('EUR 90,071,992,547,409.91');
    expect(amountText(Number.MAX_SAFE_INTEGER, 'JPY')).toBe('JPY 9,007,199,254,740,991');
  });
});
