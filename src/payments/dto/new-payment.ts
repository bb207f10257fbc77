import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsEmail, IsIn, Matches, MaxLength, Validate, ValidateIf, ValidatorConstraint } from 'class-validator';
import type { ValidationArguments, ValidatorConstraintInterface } from 'class-validator';
import { Optional } from '../../http/request-model.js';
import { PAYMENT_METHODS, type PaymentMethod } from '../payment.entity.js';

/** A member that belongs to one method only: sent with the other it would be dropped without a word. */
@ValidatorConstraint()
class BelongsToMethod implements ValidatorConstraintInterface {
  validate(_value: unknown, { object, constraints: [method] }: ValidationArguments): boolean {
    return (object as NewPayment).method === method;
  }

  defaultMessage({ property, constraints: [method] }: ValidationArguments): string {
    return `${property} belongs to the method ${method as string}`;
  }
}

const NAME = /^[\x21-\x7e]{1,255}$/;

export class NewPayment {
  @ApiProperty({ enum: PAYMENT_METHODS })
  @IsIn(PAYMENT_METHODS, { message: `method must be one of ${PAYMENT_METHODS.join(', ')}` })
  method!: PaymentMethod;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 255,
    example: 'pm_card_visa',
    description: 'With `card`: what the card provider calls the card',
  })
  @ValidateIf(({ method, paymentMethod }: NewPayment) => method === 'card' || paymentMethod !== undefined)
  @Validate(BelongsToMethod, ['card'])
  @Matches(NAME, { message: 'paymentMethod must be 1 to 255 printable ASCII characters' })
  paymentMethod?: string;

  @ApiPropertyOptional({
    minLength: 1,
    maxLength: 255,
    example: 'DE89370400440532013000',
    description: 'With `bank_transfer`: the account to collect from',
  })
  @ValidateIf(({ method, account }: NewPayment) => method === 'bank_transfer' || account !== undefined)
  @Validate(BelongsToMethod, ['bank_transfer'])
  @Matches(NAME, { message: 'account must be 1 to 255 printable ASCII characters' })
  account?: string;

  @ApiPropertyOptional({ format: 'email', maxLength: 254, description: 'Where a receipt is to be mailed' })
  @Optional()
  @MaxLength(254)
  @IsEmail({}, { message: 'receiptEmail must be an email address' })
  // A quoted local part may hold line breaks (RFC 5322, section 3.2.4), which in a mail's header would be another header.
  @Matches(/^[^\s\p{Cc}<>,;]*$/u, { message: 'receiptEmail must be one plain address' })
  receiptEmail?: string;
}

/** What the money is to be taken from. */
export function sourceOf({ method, paymentMethod, account }: NewPayment): string {
  return (method === 'card' ? paymentMethod : account)!;
}
