import { Controller, Get, Header, Param, VERSION_NEUTRAL } from '@nestjs/common';
import { ApiOkResponse, ApiOperation, ApiParam, ApiProduces, ApiTags } from '@nestjs/swagger';
import { ApiProblems } from './api-problems.decorator.js';
import { findProblemType, Problem } from './problem.js';
import { NotFound } from './problems.js';

/** The pages behind the `type` of problem documents (RFC 9457, section 3.1.1). */
@ApiTags('Problems')
@Controller({ path: 'problems', version: VERSION_NEUTRAL })
export class ProblemsController {
  @Get(':code')
  @Header('Content-Type', 'text/html; charset=utf-8')
  @ApiProduces('text/html')
  @ApiOperation({
    operationId: 'getProblem',
    summary: 'Explain a problem',
    description: 'What happened, and the way out.',
  })
  @ApiParam({ name: 'code', description: 'The `code` of a problem document', example: NotFound.code })
  @ApiOkResponse({ description: 'A page for people', schema: { type: 'string' } })
  @ApiProblems(NotFound)
  show(@Param('code') code: string): string {
    const type = findProblemType(code);
    if (!type) throw new Problem(NotFound, 'There is no problem of this name.');
    return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>${type.status} ${type.code}</title>
<h1>${escape(type.title)}</h1>
<p><code>${type.code}</code>, status ${type.status}</p>
<h2>What happened</h2>
<p>${escape(type.explanation)}</p>
<h2>What to do</h2>
<p>${escape(type.remedy)}</p>
</html>
`;
  }
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
