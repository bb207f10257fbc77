import { badParameter } from './stripe-refusal.js';

/** https://docs.stripe.com/currencies */
const SUPPORTED = new Set(
  (
    'usd aed afn all amd ang aoa ars aud awg azn bam bbd bdt bgn bhd bif bmd bnd bob brl bsd bwp byn bzd cad cdf chf ' +
    'clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils ' +
    'inr isk jmd jod jpy kes kgs khr kmf krw kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk ' +
    'mxn myr mzn nad ngn nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp ' +
    'sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx uyu uzs vnd vuv wst xaf xcd xof xpf yer zar zmw'
  ).split(' '),
);

/** https://docs.stripe.com/currencies#minimum-and-maximum-charge-amounts; where nothing stands there: one. */
const LEAST: Readonly<Record<string, number>> = {
  ...{ usd: 50, aed: 200, aud: 50, bgn: 100, brl: 50, cad: 50, chf: 50, czk: 1_500, dkk: 250, eur: 50, gbp: 30 },
  ...{ hkd: 400, huf: 17_500, inr: 50, jpy: 50, mxn: 1_000, myr: 200, nok: 300, nzd: 50, pln: 200, ron: 200 },
  ...{ sek: 300, sgd: 50, thb: 1_000 },
};
const MOST = 99_999_999;

export function checkCurrency(given: string): string {
  const currency = given.toLowerCase();
  if (SUPPORTED.has(currency)) return currency;
  const list = [...SUPPORTED].join(', ');
  throw badParameter('currency', `Invalid currency: ${currency}. Stripe currently supports these currencies: ${list}`);
}

export function checkChargeAmount(amount: number, currency: string): void {
  const least = LEAST[currency] ?? 1;
  const of = `minor units of ${currency.toUpperCase()}`;
  if (amount < least) throw badParameter('amount', `Amount must be at least ${least} ${of}.`, 'amount_too_small');
  if (amount > MOST) throw badParameter('amount', `Amount must be no more than ${MOST} ${of}.`, 'amount_too_large');
}
