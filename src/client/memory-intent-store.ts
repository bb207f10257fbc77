import type { DamagedEntry, Intent, IntentStore } from './intent.js';

/** Keeps intents as long as the process lives: for browsers' pages, tests, and callers who keep their own keys. */
export class MemoryIntentStore implements IntentStore {
  private readonly intents = new Map<string, Intent>();

  async put(intent: Intent): Promise<void> {
    this.intents.set(intent.key, intent);
  }

  async get(key: string): Promise<Intent | undefined> {
    return this.intents.get(key);
  }

  async delete(key: string): Promise<void> {
    this.intents.delete(key);
  }

  async list(): Promise<{ intents: Intent[]; damaged: DamagedEntry[] }> {
    return { intents: [...this.intents.values()], damaged: [] };
  }
}
