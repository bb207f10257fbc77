import { spawnSync } from 'node:child_process';
import { describe, expect, it } from '@jest/globals';

/** It comes with Prometheus; `apt-get install prometheus` on Debian. */
const promtool = (...args: string[]) => {
  const { status, stdout, stderr, error } = spawnSync('promtool', args, { encoding: 'utf8' });
  return { status: error ? undefined : status, output: `${stdout ?? ''}${stderr ?? ''}` };
};

const isThere = promtool('--version').status === 0;
if (!isThere) console.log('promtool is not installed: alert rules are not tried out.');
const itWithPromtool = isThere ? it : it.skip;

describe('Prometheus', () => {
  itWithPromtool('takes the configuration with its rules', () => {
    const { status, output } = promtool('check', 'config', 'monitoring/prometheus.yml');
    expect([status, output]).toEqual([0, expect.stringContaining('SUCCESS')]);
  });

  itWithPromtool('fires each alert when it should, and not before (monitoring/alerts.test.yml)', () => {
    const { status, output } = promtool('test', 'rules', 'monitoring/alerts.test.yml');
    expect([status, output]).toEqual([0, expect.stringContaining('SUCCESS')]);
  });
});
