import { problemType } from '../http/problem.js';

export const CursorExpired = problemType({
  code: 'cursor-expired',
  status: 410,
  title: 'The cursor is older than events are kept',
  underKey: 'released',
  explanation: 'Events that follow this cursor have been removed, so reading on from here would miss some.',
  remedy:
    'Read the resources themselves for their present state, then follow the log from its beginning, without "after".',
});
