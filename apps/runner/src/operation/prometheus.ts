import type { Server } from 'node:http';
import { readdirSync, readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { DeviceState, Outcome, PilotState, type Fleet } from '@flashcore/shared/contract';
import type { JobPlanner } from '../jobs/job-context.ts';
import type { Jobs } from '../jobs/jobs.ts';
import { AddressInUse } from '../rpc/listen.ts';
import { formatAddress, type ListenAddress } from '../rpc/address.ts';

// Writes the text format by hand, in some fifty lines: the usual library has had no release for two years and depends
// on OpenTelemetry.
// https://prometheus.io/docs/instrumenting/exposition_formats/
const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

type Labels = Record<string, string>;

export interface Metric {
  name: string;
  help: string;
  type: 'gauge' | 'counter';
  samples: { labels?: Labels; value: number }[];
}

export interface Observed {
  jobs: Jobs;
  planner: Pick<JobPlanner, 'cacheUse' | 'fleet'>;
  connections: () => number;
}

export interface MetricsServer {
  address: string;
  close(): void;
}

/** Serves GET /metrics over plain HTTP on an address of this machine. Throws AddressInUse. */
export async function serveMetrics(
  address: ListenAddress & { kind: 'tcp' },
  observed: Observed,
): Promise<MetricsServer> {
  // Imported lazily, because it makes Node load its whole HTTP client.
  const { createServer } = await import('node:http');
  const delay = monitorEventLoopDelay({ resolution: 20 });
  delay.enable();
  const server = createServer((request, response) => {
    const found = request.method === 'GET' && request.url?.split('?', 1)[0] === '/metrics';
    response.writeHead(found ? 200 : 404, { 'content-type': found ? CONTENT_TYPE : 'text/plain' });
    response.end(found ? formatMetrics([...runnerMetrics(observed), ...processMetrics(delay)]) : 'GET /metrics\n');
  });
  await listening(server, address);
  const close = (): void => {
    delay.disable();
    server.close();
    server.closeAllConnections();
  };
  return { address: formatAddress({ ...address, port: (server.address() as AddressInfo).port }), close };
}

async function listening(server: Server, address: ListenAddress & { kind: 'tcp' }): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', (error: NodeJS.ErrnoException) =>
    reject(error.code === 'EADDRINUSE' ? new AddressInUse(formatAddress(address), '--metrics') : error),
  );
  server.listen(address.port, address.host, resolve);
  await promise;
}

const one = (name: string, type: Metric['type'], help: string, value: number): Metric => ({
  name,
  type,
  help,
  samples: [{ value }],
});

/** Metrics of a runner; names contain the unit, https://prometheus.io/docs/practices/naming/. */
export function runnerMetrics({ jobs, planner, connections }: Observed): Metric[] {
  const { waiting, running, watchers, eventLag, outcomes, eventsStored } = jobs.statistics();
  const { hits, misses } = planner.cacheUse();
  const devices = jobs.devices();
  return [
    one('flashcore_jobs_waiting', 'gauge', 'Jobs in the queue', waiting),
    one('flashcore_jobs_running', 'gauge', 'Jobs that have their device', running),
    {
      name: 'flashcore_jobs_ended_total',
      type: 'counter',
      help: 'Jobs of this data directory by outcome',
      samples: outcomes.map(({ outcome, count }) => ({
        labels: { outcome: (Outcome[outcome] ?? String(outcome)).toLowerCase() },
        value: count,
      })),
    },
    {
      name: 'flashcore_build_cache_total',
      type: 'counter',
      help: 'Compilations asked for, by whether the cache had them',
      samples: [
        { labels: { result: 'hit' }, value: hits },
        { labels: { result: 'miss' }, value: misses },
      ],
    },
    {
      name: 'flashcore_device_state',
      type: 'gauge',
      help: '1 for the state that a device is in',
      samples: devices.map(({ deviceId, name, state }) => ({
        labels: { device: deviceId, name, state: (DeviceState[state] ?? 'unknown').toLowerCase() },
        value: 1,
      })),
    },
    ...fleetMetrics(planner.fleet?.()),
    one('flashcore_watchers', 'gauge', 'Streams of job events that are open', watchers),
    one('flashcore_event_lag', 'gauge', 'Events stored that the slowest watcher was not sent yet', eventLag),
    one('flashcore_events_stored_total', 'counter', 'Events stored since the start', eventsStored),
    one('flashcore_connections', 'gauge', 'Clients connected', connections()),
  ];
}

/** Metrics of the cluster behind a gateway. */
function fleetMetrics(fleet: Fleet | undefined): Metric[] {
  if (!fleet) return [];
  const states = [PilotState.PENDING, PilotState.IDLE, PilotState.BUSY, PilotState.AWAY, PilotState.LEAVING];
  return [
    {
      name: 'flashcore_pilots',
      type: 'gauge',
      help: 'Pilots by partition and state',
      samples: fleet.partitions.flatMap(({ name }) =>
        states.map((state) => ({
          labels: { partition: name, state: PilotState[state].toLowerCase() },
          value: fleet.pilots.filter((pilot) => pilot.partition === name && pilot.state === state).length,
        })),
      ),
    },
    {
      name: 'flashcore_partition_jobs_waiting',
      type: 'gauge',
      help: 'Jobs that wait for a pilot of a partition',
      samples: fleet.partitions.map(({ name, waitingJobs }) => ({ labels: { partition: name }, value: waitingJobs })),
    },
    one('flashcore_requeues_total', 'counter', 'Jobs given to another pilot', Number(fleet.requeues)),
    one('flashcore_lost_leases_total', 'counter', 'Leases that ended with their pilot', Number(fleet.lostLeases)),
    one(
      'flashcore_refused_events_total',
      'counter',
      'Events under a lease that had ended',
      Number(fleet.refusedEvents),
    ),
    {
      name: 'flashcore_gpu_held_seconds_total',
      type: 'counter',
      help: 'Time that pilots had their GPUs',
      samples: fleet.partitions.map(({ name, heldSeconds }) => ({ labels: { partition: name }, value: heldSeconds })),
    },
    {
      name: 'flashcore_gpu_used_seconds_total',
      type: 'counter',
      help: 'Time of it in which a job ran',
      samples: fleet.partitions.map(({ name, usedSeconds }) => ({ labels: { partition: name }, value: usedSeconds })),
    },
    one(
      'flashcore_ahead_build_seconds_total',
      'counter',
      'Time in which the gateway built jobs before they had a GPU',
      fleet.builds?.seconds ?? 0,
    ),
    one(
      'flashcore_jobs_without_gpu_total',
      'counter',
      'Jobs that ended before they had a GPU: builds, and what does not compile',
      Number(fleet.builds?.endedWithoutGpu ?? 0),
    ),
    one(
      'flashcore_scheduler_up',
      'gauge',
      '1 while the scheduler answers',
      fleet.schedulerProblem === undefined ? 1 : 0,
    ),
  ];
}

function processMetrics(delay: ReturnType<typeof monitorEventLoopDelay>): Metric[] {
  const { user, system } = process.cpuUsage();
  const { rss, heapUsed } = process.memoryUsage();
  const p99 = delay.percentile(99) / 1e9;
  delay.reset();
  return [
    one('process_cpu_seconds_total', 'counter', 'User and system time', (user + system) / 1e6),
    one('process_resident_memory_bytes', 'gauge', 'Resident memory', rss),
    one('nodejs_heap_used_bytes', 'gauge', 'JavaScript heap in use', heapUsed),
    one(
      'nodejs_eventloop_delay_p99_seconds',
      'gauge',
      'Delay of the event loop since the last scrape',
      Number.isFinite(p99) ? p99 : 0,
    ),
    one('process_start_time_seconds', 'gauge', 'Start, seconds since 1970', Date.now() / 1000 - process.uptime()),
    ...(process.platform === 'linux'
      ? [
          one('process_open_fds', 'gauge', 'Open descriptors', readdirSync('/proc/self/fd').length),
          one('process_max_fds', 'gauge', 'Limit of open descriptors', descriptorLimit()),
        ]
      : []),
  ];
}

const descriptorLimit = (): number =>
  Number(/^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Infinity);

export function formatMetrics(metrics: readonly Metric[]): string {
  return (
    metrics
      .map(({ name, type, help, samples }) =>
        [
          `# HELP ${name} ${help}`,
          `# TYPE ${name} ${type}`,
          ...samples.map(({ labels, value }) => `${name}${formatLabels(labels)} ${formatValue(value)}`),
        ].join('\n'),
      )
      .join('\n') + '\n'
  );
}

function formatLabels(labels: Labels = {}): string {
  const pairs = Object.entries(labels).map(
    ([name, value]) => `${name}="${value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')}"`,
  );
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

const formatValue = (value: number): string => (value === Infinity ? '+Inf' : String(value));
