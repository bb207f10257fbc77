import { type DynamicModule, Global, Module } from '@nestjs/common';
import { PUBLIC_URL, ProblemRenderer } from './problem-renderer.js';
import { ProblemsController } from './problems.controller.js';

/** How the service speaks HTTP: problem documents and their pages. */
@Global()
@Module({})
export class HttpModule {
  /** @param publicUrl the address clients use; undefined: `http://localhost:` and the port listened on */
  static forRoot(publicUrl: string | undefined): DynamicModule {
    return {
      module: HttpModule,
      controllers: [ProblemsController],
      providers: [{ provide: PUBLIC_URL, useValue: publicUrl }, ProblemRenderer],
      exports: [ProblemRenderer],
    };
  }
}
