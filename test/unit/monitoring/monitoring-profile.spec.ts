import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { parse } from 'yaml';

interface Service {
  readonly image?: string;
  readonly profiles?: readonly string[];
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

const read = (path: string): unknown => parse(readFileSync(path, 'utf8'));
const compose = read('docker-compose.yml') as { services: Record<string, Service>; volumes: Record<string, unknown> };
const { prometheus, grafana } = compose.services as { prometheus: Service; grafana: Service };

/** Where a file of a container comes from: mounts are `host:container:ro`. */
function hostPath({ volumes = [] }: Service, path: string): string {
  const mounts = volumes.map((volume) => volume.split(':') as [string, string]);
  const [host, container] = mounts.find(([, container]) => path === container || path.startsWith(`${container}/`))!;
  return join(host, path.slice(container.length));
}

describe('the profile monitoring', () => {
  it('starts Prometheus and Grafana, each of one version, on ports of this machine that nobody else has', () => {
    const ofProfile = Object.entries(compose.services).filter(([, { profiles }]) => profiles?.includes('monitoring'));
    expect(ofProfile.map(([name]) => name)).toEqual(['prometheus', 'grafana']);
    for (const [, { image }] of ofProfile) expect(image).toMatch(/^[\w/-]+:v?\d+\.\d+\.\d+$/);
    const ports = Object.values(compose.services).flatMap((service) => service.ports ?? []);
    for (const port of ports) expect(port).toMatch(/^127\.0\.0\.1:\d+:\d+$/);
    const published = ports.map((port) => port.split(':')[1]);
    expect(new Set(published).size).toBe(published.length);
  });

  it('gives them files that are there', () => {
    for (const { volumes = [] } of [prometheus, grafana]) {
      for (const [host] of volumes.map((volume) => volume.split(':') as [string])) {
        if (host.startsWith('./')) expect([host, existsSync(host)]).toEqual([host, true]);
        else expect(Object.keys(compose.volumes)).toContain(host);
      }
    }
  });

  it('lets Prometheus scrape the service of that file, under the job that the rules look for', () => {
    const { scrape_configs: jobs, rule_files: rules } = read('monitoring/prometheus.yml') as {
      scrape_configs: { job_name: string; metrics_path?: string; static_configs: { targets: string[] }[] }[];
      rule_files: string[];
    };
    const [job] = jobs;
    expect(job!.job_name).toBe('orders-service');
    expect(job!.metrics_path).toBeUndefined(); // it is /metrics
    const [host, port] = job!.static_configs[0]!.targets[0]!.split(':');
    expect(compose.services[host!]!.ports![0]).toMatch(new RegExp(`:${port}$`));
    for (const file of rules) expect(existsSync(hostPath(prometheus, `/etc/prometheus/${file}`))).toBe(true);
  });

  it('lets Grafana find its data source and the dashboard', () => {
    const at = (path: string) => hostPath(grafana, `/etc/grafana/provisioning/${path}`);
    const { datasources } = read(at('datasources/prometheus.yml')) as { datasources: { type: string; url: string }[] };
    expect(datasources).toMatchObject([{ type: 'prometheus', url: 'http://prometheus:9090' }]);
    const { providers } = read(at('dashboards/orders-service.yml')) as { providers: { options: { path: string } }[] };
    const home = grafana.environment!.GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH!;
    expect(home.startsWith(`${providers[0]!.options.path}/`)).toBe(true);
    expect(existsSync(hostPath(grafana, home))).toBe(true);
  });
});
