import type { Accident } from '../accident.js';
import { changedBody } from './changed-body.js';
import { doubleClick } from './double-click.js';
import { killedAfterCommit } from './killed-after-commit.js';
import { lostReply } from './lost-reply.js';
import { providerTimeout } from './provider-timeout.js';
import { redeliveredMessage } from './redelivered-message.js';
import { staleEdit } from './stale-edit.js';

/** In the order in which they are told. */
export const ACCIDENTS: readonly Accident[] = [
  lostReply,
  doubleClick,
  killedAfterCommit,
  changedBody,
  providerTimeout,
  redeliveredMessage,
  staleEdit,
];
