import { Injectable, type OnModuleDestroy } from '@nestjs/common';

/** Whether this process is on its way out. */
@Injectable()
export class Lifecycle implements OnModuleDestroy {
  private ending = false;

  get stopping(): boolean {
    return this.ending;
  }

  onModuleDestroy(): void {
    this.ending = true;
  }
}
