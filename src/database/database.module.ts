import { type DynamicModule, Global, Module } from '@nestjs/common';
import { getDataSourceToken, TypeOrmModule } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import { AcrossTenants } from './across-tenants.js';
import { type DatabaseOptions, dataSourceOptions } from './data-source.js';
import { PoolFigures } from './pool-figures.js';
import { UnitOfWork } from './unit-of-work.js';

/** The pool and the ways to use it. Repositories are not handed out: beside a transaction they silently bypass it. */
@Global()
@Module({})
export class DatabaseModule {
  static forRoot(options: DatabaseOptions): DynamicModule {
    const inject = [getDataSourceToken()];
    return {
      module: DatabaseModule,
      imports: [
        TypeOrmModule.forRoot({
          ...dataSourceOptions(options),
          autoLoadEntities: true,
          retryAttempts: 5,
          retryDelay: 1_000,
        }),
      ],
      providers: [
        { provide: UnitOfWork, useFactory: (dataSource: DataSource) => new UnitOfWork(dataSource), inject },
        { provide: PoolFigures, useFactory: (dataSource: DataSource) => new PoolFigures(dataSource), inject },
        { provide: AcrossTenants, useFactory: (dataSource: DataSource) => new AcrossTenants(dataSource), inject },
      ],
      exports: [UnitOfWork, AcrossTenants, PoolFigures],
    };
  }
}
