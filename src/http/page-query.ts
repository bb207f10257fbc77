import { ApiPropertyOptional } from '@nestjs/swagger';
import { IsString, Matches, MaxLength } from 'class-validator';
import { Optional } from './request-model.js';
import { decodeCursor } from './pagination.js';
import { validationFailed } from './validation.js';

const DEFAULT_LIMIT = 50;

/** The query members of every list. */
export class PageQuery {
  @ApiPropertyOptional({ type: 'integer', minimum: 1, maximum: 100, default: DEFAULT_LIMIT })
  @Optional()
  @Matches(/^([1-9]\d?|100)$/, { message: 'limit must be a whole number from 1 to 100' })
  limit?: string;

  @ApiPropertyOptional({ description: 'The nextCursor of the page before' })
  @Optional()
  @IsString()
  @MaxLength(512)
  after?: string;
}

/** How many rows a page has. */
export function limitOf({ limit }: PageQuery): number {
  return limit === undefined ? DEFAULT_LIMIT : Number(limit);
}

/**
 * What the cursor of that query says.
 *
 * @param count how many parts a cursor of this list has
 * @throws Problem `validation-failed` for a cursor that this service did not make
 */
export function positionOf({ after }: PageQuery, count: number): string[] | undefined {
  if (after === undefined) return undefined;
  const parts = decodeCursor(after, count);
  if (!parts) throw foreignCursor();
  return parts;
}

/** The refusal of a cursor that does not come from this list. */
export function foreignCursor(): Error {
  return validationFailed([
    { pointer: '/after', detail: 'after must be the nextCursor of an earlier page of this list' },
  ]);
}
