import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { FleetSchema, PilotState } from '@flashcore/shared/contract';
import { until } from '@flashcore/shared/testing';
import { collect, firstEvent, kernel, startTestRunner } from '../testing/test-runner.ts';
import { AddressInUse } from '../rpc/listen.ts';
import { createLogger } from '../log.ts';
import { formatMetrics, runnerMetrics, serveMetrics, type Observed } from './prometheus.ts';

const LOOPBACK = { kind: 'tcp', host: '127.0.0.1', port: 0 } as const;

interface Parsed {
  types: Record<string, string>;
  samples: { name: string; labels: Record<string, string>; value: number }[];
}

/**
 * Parses the text format strictly, as specified in https://prometheus.io/docs/instrumenting/exposition_formats/. Throws
 * for any line outside the format.
 */
function parse(text: string): Parsed {
  const parsed: Parsed = { types: {}, samples: [] };
  expect(text.endsWith('\n')).toBe(true);
  for (const line of text.slice(0, -1).split('\n')) {
    const [, type, of] = /^# TYPE ([a-zA-Z_:][\w:]*) (?:counter|gauge)$/.exec(line)
      ? [line, line.split(' ')[2]!, line.split(' ')[3]!]
      : [];
    if (type !== undefined) {
      if (parsed.types[type]) throw new Error(`${type} twice`);
      parsed.types[type] = of!;
      continue;
    }
    if (/^# HELP [a-zA-Z_:][\w:]* .+$/.test(line)) continue;
    const [, name, labels = '', value] =
      /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\[\\"n])*",?)+)\})? (\+Inf|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/.exec(
        line,
      ) ?? [];
    if (name === undefined || !parsed.types[name]) throw new Error(`no sample, or one without a type: ${line}`);
    const pairs = [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(
      ([, key, text]) => [key, text!.replaceAll('\\n', '\n').replaceAll('\\"', '"').replaceAll('\\\\', '\\')] as const,
    );
    parsed.samples.push({
      name,
      labels: Object.fromEntries(pairs) as Record<string, string>,
      value: value === '+Inf' ? Infinity : Number(value),
    });
  }
  return parsed;
}

test('a strict parser reads escaped labels back unchanged', () => {
  const labels = { name: 'a "b" \\ c\nd' };
  expect(
    parse(
      formatMetrics([
        { name: 'x_total', help: 'X', type: 'counter', samples: [{ labels, value: 1 }, { value: Infinity }] },
      ]),
    ).samples,
  ).toEqual([
    { name: 'x_total', labels, value: 1 },
    { name: 'x_total', labels: {}, value: Infinity },
  ]);
});

test('a scrape reports queue, outcomes, cache, devices, watchers and the process', async () => {
  let address = '';
  const logger = Object.assign(createLogger('silent'), {
    info: (facts: { address?: string }, text?: string) => {
      if (text === 'metrics') address = facts.address ?? '';
    },
  });
  await using fixture = await startTestRunner({ metrics: LOOPBACK, logger });
  const { client } = fixture;
  await collect(client.start('build', kernel('flood_20')));
  await collect(client.start('build', kernel('error')));
  const running = client.start('build', kernel('hang'));
  await running.next();
  const { job: waiting } = await firstEvent(client.start('build', kernel('ok')));
  const scrape = async () => {
    const response = await fetch(`http://${address}/metrics`);
    expect([response.status, response.headers.get('content-type')]).toEqual([
      200,
      'text/plain; version=0.0.4; charset=utf-8',
    ]);
    const { samples } = parse(await response.text());
    return (name: string, labels: Record<string, string> = {}) =>
      samples.find(
        (one) => one.name === name && Object.entries(labels).every(([key, value]) => one.labels[key] === value),
      )?.value;
  };
  await until(async () => (await scrape())('flashcore_watchers') === 1);
  const value = await scrape();
  expect({
    waiting: value('flashcore_jobs_waiting'),
    running: value('flashcore_jobs_running'),
    passed: value('flashcore_jobs_ended_total', { outcome: 'passed' }),
    error: value('flashcore_jobs_ended_total', { outcome: 'error' }),
    hits: value('flashcore_build_cache_total', { result: 'hit' }),
    misses: value('flashcore_build_cache_total', { result: 'miss' }),
    busy: value('flashcore_device_state', { device: 'gpu0', state: 'busy' }),
    lag: value('flashcore_event_lag'),
    connections: value('flashcore_connections'),
  }).toEqual({ waiting: 1, running: 1, passed: 1, error: 1, hits: 3, misses: 1, busy: 1, lag: 0, connections: 1 });
  expect(value('flashcore_events_stored_total')).toBeGreaterThan(25);
  expect(value('process_resident_memory_bytes')).toBeGreaterThan(1e7);
  expect(value('process_cpu_seconds_total')).toBeGreaterThan(0);
  await client.cancelJob({ name: waiting });
  expect((await scrape())('flashcore_jobs_ended_total', { outcome: 'cancelled' })).toBe(1);
  expect((await fetch(`http://${address}/`)).status).toBe(404);
  const port = Number(address.split(':')[1]);
  await expect(
    serveMetrics(
      { ...LOOPBACK, port },
      { jobs: undefined as never, planner: undefined as never, connections: () => 0 },
    ),
  ).rejects.toThrow(new AddressInUse(`127.0.0.1:${port}`, '--metrics'));
  await running.return();
});

test('a gateway reports its queue, its pilots by state, lost leases, requeues, and seconds held and used', () => {
  const pilots = [PilotState.BUSY, PilotState.AWAY, PilotState.PENDING].map((state) => ({ partition: 'gpu', state }));
  const fleet = create(FleetSchema, {
    partitions: [{ name: 'gpu', waitingJobs: 41, heldSeconds: 7200, usedSeconds: 5400 }],
    pilots,
    requeues: 3n,
    lostLeases: 2n,
    refusedEvents: 1n,
    schedulerProblem: 'slurmctld is away',
  });
  const observed = {
    jobs: {
      statistics: () => ({ waiting: 41, running: 1, watchers: 0, eventLag: 0, eventsStored: 0, outcomes: [] }),
      devices: () => [],
    },
    planner: { cacheUse: () => ({ hits: 0, misses: 0 }), fleet: () => fleet },
    connections: () => 0,
  } as unknown as Observed;
  const { samples } = parse(formatMetrics(runnerMetrics(observed)));
  const told = Object.fromEntries(
    samples.map(({ name, labels, value }) => [[name, ...Object.values(labels)].join(' '), value]),
  );
  expect(told).toMatchObject({
    flashcore_jobs_waiting: 41,
    'flashcore_partition_jobs_waiting gpu': 41,
    'flashcore_pilots gpu pending': 1,
    'flashcore_pilots gpu idle': 0,
    'flashcore_pilots gpu busy': 1,
    'flashcore_pilots gpu away': 1,
    'flashcore_pilots gpu leaving': 0,
    flashcore_requeues_total: 3,
    flashcore_lost_leases_total: 2,
    flashcore_refused_events_total: 1,
    'flashcore_gpu_held_seconds_total gpu': 7200,
    'flashcore_gpu_used_seconds_total gpu': 5400,
    flashcore_scheduler_up: 0,
  });
});
