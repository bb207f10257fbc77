import { describe, expect, it } from '@jest/globals';
import { Turns } from '../../../src/feeds/turns.js';
import { Gate } from '../../database/gate.js';

describe('turns', () => {
  it('let one piece of work of a name run at a time, in the order in which they came', async () => {
    const turns = new Turns();
    const gate = new Gate();
    const steps: string[] = [];
    const work = (name: string) => async () => {
      steps.push(`${name} begins`);
      await gate.opened;
      steps.push(`${name} ends`);
      return name;
    };
    const all = ['a', 'b', 'c'].map((name) => turns.take('feed', work(name)));
    await turns.take('other', async () => steps.push('other'));
    gate.open();

    expect(await Promise.all(all)).toEqual(['a', 'b', 'c']);
    expect(steps).toEqual(['a begins', 'other', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends']);
  });

  it('go on after work that has failed, and tell its failure to its own caller alone', async () => {
    const turns = new Turns();
    const gate = new Gate();
    const failing = turns.take('feed', async () => {
      await gate.opened;
      throw new Error('lost');
    });
    const next = turns.take('feed', async () => 'done');
    gate.open();

    await expect(failing).rejects.toThrow('lost');
    expect(await next).toBe('done');
  });

  it('leave nothing behind', async () => {
    const turns = new Turns();
    await Promise.allSettled([
      turns.take('feed', async () => 1),
      turns.take('feed', () => Promise.reject(new Error())),
    ]);

    expect((turns as unknown as { latest: Map<string, unknown> }).latest.size).toBe(0);
  });
});
