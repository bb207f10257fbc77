import { type DynamicModule, Module } from '@nestjs/common';
import { DiscoveryModule } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { IDEMPOTENCY_OPTIONS, type IdempotencyOptions } from './idempotency.options.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { IdempotencyKey } from './idempotency-key.entity.js';
import { IdempotencyKeysController } from './idempotency-keys.controller.js';
import { KeyCleanup } from './key-cleanup.js';
import { KeyClaims } from './key-claims.js';
import { KeyedExecution } from './keyed-execution.js';
import { LeasedExecution } from './leased-execution.js';
import { LocalExecution } from './local-execution.js';
import { RepeatSafetyCheck } from './repeat-safety.check.js';
import { UnfinishedOperations } from './unfinished-operations.js';

/**
 * Idempotency keys. Import it once, and provide {@link IdempotencyInterceptor} as the *first* `APP_INTERCEPTOR` of the
 * root module: there it is outermost, and sees what the others made of a result.
 */
@Module({})
export class IdempotencyModule {
  static forRoot(options: IdempotencyOptions): DynamicModule {
    return {
      module: IdempotencyModule,
      global: true, // features with operations of their own need no options to import it
      imports: [DiscoveryModule, TypeOrmModule.forFeature([IdempotencyKey])],
      controllers: [IdempotencyKeysController],
      providers: [
        { provide: IDEMPOTENCY_OPTIONS, useValue: options },
        KeyClaims,
        LocalExecution,
        LeasedExecution,
        KeyedExecution,
        UnfinishedOperations,
        KeyCleanup,
        RepeatSafetyCheck,
        IdempotencyInterceptor,
      ],
      exports: [IdempotencyInterceptor, KeyCleanup, UnfinishedOperations],
    };
  }
}
