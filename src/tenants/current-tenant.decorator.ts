import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import type { Request } from 'express';
import { callerOf } from './login.js';

/** The id of the tenant that sent the request. */
export const CurrentTenant = createParamDecorator((_: unknown, context: ExecutionContext): string => {
  return callerOf(context.switchToHttp().getRequest<Request>()).tenantId;
});
