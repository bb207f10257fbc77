import type { CreateCalls } from '../create-calls.js';
import { PlainRefusal, type Reply, type SandboxRequest } from '../reply.js';
import type { SandboxDatabase } from '../sandbox-database.js';
import { createTransfer, findTransfers, readNewTransfer } from './transfers.js';

/** Everything below `/bank`. */
export class BankApi {
  constructor(
    private readonly database: SandboxDatabase,
    private readonly calls: CreateCalls,
  ) {}

  createTransfer({ body }: SandboxRequest): Promise<Reply> {
    const operation = 'bank_transfers.create';
    return this.calls.answer(operation, null, () => {
      const wanted = readNewTransfer(body);
      return { operation, execute: (sql) => createTransfer(sql, wanted), failure: bankFailure };
    });
  }

  findTransfers({ query }: SandboxRequest): Promise<Reply> {
    return findTransfers(this.database, query);
  }
}

function bankFailure(status: 500 | 503): Reply {
  return status === 500
    ? new PlainRefusal(500, 'internal_error', 'Something went wrong.').reply
    : new PlainRefusal(503, 'unavailable', 'The bank is not to be reached.').reply;
}
