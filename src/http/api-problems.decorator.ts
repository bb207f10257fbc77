import { applyDecorators } from '@nestjs/common';
import { ApiProperty, ApiPropertyOptional, ApiResponse, ApiSchema } from '@nestjs/swagger';
import type { ProblemType } from './problem.js';
import { InternalError, ValidationFailed } from './problems.js';

@ApiSchema({ name: 'ProblemFault' })
class FaultDocument {
  @ApiProperty({ example: '/items/0/quantity', description: 'JSON Pointer (RFC 6901) to the member' })
  pointer!: string;

  @ApiProperty({ example: 'quantity must not be less than 1' })
  detail!: string;
}

/** A problem document as clients see it (RFC 9457); {@link ProblemRenderer} writes it. */
@ApiSchema({ name: 'Problem', description: 'A refusal (RFC 9457). Clients tell refusals apart by `code`.' })
export class ProblemDocument {
  @ApiProperty({ format: 'uri', description: 'The page that explains the problem and the way out' })
  type!: string;

  @ApiProperty()
  title!: string;

  @ApiProperty({ type: 'integer', minimum: 400, maximum: 599 })
  status!: number;

  @ApiProperty({ description: 'What went wrong this time' })
  detail!: string;

  @ApiProperty({ description: 'The path of the request' })
  instance!: string;

  @ApiProperty({ description: "The machine's handle" })
  code!: string;

  @ApiPropertyOptional({ format: 'uuid', description: 'Under which the failure is on record' })
  errorId?: string;

  @ApiPropertyOptional({ type: [FaultDocument], description: 'What is not valid, member by member' })
  errors?: FaultDocument[];

  @ApiPropertyOptional({ format: 'uuid', description: 'The order that a client needs next' })
  orderId?: string;

  @ApiPropertyOptional({ format: 'uuid', description: 'The payment that a client needs next' })
  paymentId?: string;

  @ApiPropertyOptional({ format: 'uuid', description: 'The refund that a client needs next' })
  refundId?: string;

  @ApiPropertyOptional({ description: "The provider's reason for saying no" })
  declineCode?: string;

  @ApiPropertyOptional({ type: 'integer', description: 'Minor units that can still be given back' })
  refundable?: number;

  @ApiPropertyOptional({ type: 'integer', minimum: 1, description: 'The number to go on from' })
  expectedSequence?: number;

  @ApiPropertyOptional({ type: 'integer', minimum: 0, description: 'The epoch that may send; 0: none was opened yet' })
  currentEpoch?: number;

  @ApiPropertyOptional({ type: 'integer', minimum: 1, description: 'The first number that is not a repeat' })
  sequence?: number;
}

type Members = Readonly<Record<string, unknown>>;

/** A kind of problem; with an example of its additional members where it has some. */
export type DocumentedProblem = ProblemType | readonly [ProblemType, Members];

const SHARED_MEMBERS = new Map<ProblemType, Members>([
  [ValidationFailed, { errors: [{ pointer: '/items/0/quantity', detail: 'quantity must not be less than 1' }] }],
  [InternalError, { errorId: '0b6f3a52-6c1e-4a57-9d0c-6a1f5a0c2f11' }],
]);

/**
 * Tells in the OpenAPI document what a route may refuse with. Status and code are read from the declared kinds, so that
 * they cannot drift from what is thrown. What every route shares is added by `describeApi`.
 *
 * @example
 * ⁠@ApiProblems(NotFound, [DuplicateExternalRef, { orderId: EXAMPLE_ID }])
 */
export function ApiProblems(...problems: readonly DocumentedProblem[]): MethodDecorator {
  return applyDecorators(
    ...problems.map((problem) => {
      const { type, example } = describeProblem(problem);
      // Nest joins the examples of several decorators for one status: they carry the codes to the finished document.
      return ApiResponse({ status: type.status, type: ProblemDocument, examples: { [type.code]: example } });
    }),
  );
}

/** A kind of problem and the example of it that the document shows. */
export function describeProblem(problem: DocumentedProblem): {
  type: ProblemType;
  example: { summary: string; value: Record<string, unknown> };
} {
  const [type, members] = 'code' in problem ? [problem, SHARED_MEMBERS.get(problem)] : problem;
  const { code, title, status, explanation } = type;
  const value = {
    type: `https://orders.test/problems/${code}`,
    title,
    status,
    detail: explanation,
    instance: '/v1/orders/01a228ef-4efb-7035-9eea-4dd650750e47',
    code,
    ...members,
  };
  return { type, example: { summary: title, value } };
}
