import { type ArgumentsHost, Catch, type ExceptionFilter } from '@nestjs/common';
import type { Request, Response } from 'express';
import { exceptionToProblem } from './exception-to-problem.js';
import { annotationsOf } from './request-annotations.js';
import { ProblemRenderer } from './problem-renderer.js';

/** Headers that a handler may have set for the answer that does not come now. */
const OF_A_REPRESENTATION = /^(etag|location|content-(?!security-policy).*)$/;

/** Answers everything that is thrown with a problem document. */
@Catch()
export class ProblemFilter implements ExceptionFilter {
  constructor(private readonly renderer: ProblemRenderer) {}

  catch(exception: unknown, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    const request = http.getRequest<Request>();
    const response = http.getResponse<Response>();
    const problem = exceptionToProblem(exception);
    const notes = annotationsOf(request);
    notes.problem = problem.type.code;
    if (typeof problem.content.members?.errorId === 'string') notes.errorId = problem.content.members.errorId;
    const { status, headers, body } = this.renderer.render(problem, request.path);
    if (response.headersSent) {
      response.destroy(); // half an answer is on its way: cut it, so that the client does not take it for a whole one
      return;
    }
    for (const name of response.getHeaderNames()) {
      if (OF_A_REPRESENTATION.test(name)) response.removeHeader(name);
    }
    response.status(status).set(headers).end(body);
  }
}
