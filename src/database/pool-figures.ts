import { Injectable } from '@nestjs/common';
import type { Pool } from 'pg';
import type { DataSource } from 'typeorm';

/** How much of the pool is in use. */
@Injectable()
export class PoolFigures {
  constructor(private readonly dataSource: DataSource) {}

  read(): { readonly busy: number; readonly idle: number; readonly waiting: number } {
    const { master } = this.dataSource.driver as unknown as { master: Pool };
    const { totalCount, idleCount, waitingCount } = master;
    return { busy: totalCount - idleCount, idle: idleCount, waiting: waitingCount };
  }
}
