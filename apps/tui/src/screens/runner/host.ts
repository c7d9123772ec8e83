/** View 8: the runner, its devices and tools, and the sandbox for kernels. */
import { memoryLabel, STATE_WORDS } from '../../present/sections/host.ts';
import {
  DeviceState,
  JobState,
  type Device,
  type DeviceConditions,
  type Host,
  type DeviceReading,
} from '@flashcore/shared/contract';
import { timestampMs } from '@bufbuild/protobuf/wkt';
import { entryOf } from '@flashcore/shared/text';
import { formatBytes, formatElapsed, formatNumber, formatCost, counted, formatPercent } from '../../present/numbers.ts';
import { fitRow, flowRows, labelled, run, textRow, wrapRows, type Row } from '../../present/cells/row.ts';
import type { AppState, HostStart } from '../../state/app-state.ts';
import { restartText } from '../chrome/message.ts';
import { attachedJob } from '../../state/selectors.ts';
import { blockRows } from '../../present/cells/cells-painter.ts';
import { hostLoadText, isHostBusy } from '../../present/sections/conditions.ts';
import { fleetBlocks, type AboutFleet } from '../../present/sections/fleet.ts';
import { notMeasured, KIND_WORDS, jobMark, jobTitle, withShortNames, SIMULATED_TEXT } from '../../present/words.ts';
import { noAnswer } from '../pane/nothing.ts';
import { scrolled, type View } from '../pane/view.ts';
import { sparkline } from '../../present/cells/bars.ts';
import { padCells } from '../../present/cells/cell-text.ts';

export const hostView: View = ({ state }, size) =>
  scrolled('8 Host', hostRows(state, size.width), { ...size, top: state.ui.selected.host });

/** The whole view; the pane shows a window of it. */
export function hostRows(state: AppState, width: number): Row[] {
  const { host } = state;
  if (host === undefined) return wrapRows(noAnswer(state), width, { role: 'dim' });
  return [
    ...runnerRows(host, state, width),
    // The activity of a gateway's partitions comes before the description of their GPUs.
    ...(host.fleet === undefined ? [] : blockRows(fleetBlocks(host.fleet, aboutFleet(state, host.devices)), width)),
    ...host.devices.flatMap((device) => [
      ...deviceRows(device, width),
      ...readingRows(device, entryOf(state.readings, device.deviceId) ?? [], width),
      ...conditionRows(conditionsOn(state, device), width),
      ...queueRows(state, device, width),
    ]),
    ...(host.tools.length === 0 ? [] : [textRow('Tools', 'title')]),
    ...host.tools.flatMap(({ name, version, archs, missing }) =>
      version === undefined && missing !== undefined
        ? wrapRows(`○ ${name}: ${missing}`, width, { role: 'dim', hang: 2 })
        : wrapRows(`✓ ${name} ${version ?? ''}${archs.length > 0 ? ` for ${archs.join(' ')}` : ''}`, width, {
            hang: 2,
          }),
    ),
    ...(host.isolation === undefined
      ? []
      : [
          textRow('Sandbox', 'title'),
          ...wrapRows(`${host.isolation.kind}: ${host.isolation.detail}`, width, { hang: 2 }),
        ]),
  ];
}

const aboutFleet = ({ jobs }: AppState, devices: readonly Device[]): AboutFleet => ({
  devices,
  titleOf: (name) => {
    const job = jobs.find((one) => one.name === name);
    return job && jobTitle(job);
  },
});

function runnerRows(host: Host, state: AppState, width: number): Row[] {
  const up = host.startTime === undefined ? '-' : formatElapsed((state.now - timestampMs(host.startTime)) / 1000);
  const groups: Row[] = [
    labelled('address', state.runner.label),
    labelled('host', host.hostName),
    labelled('platform', host.platform),
    labelled('version', `${host.runnerVersion} (${host.apiVersion})`),
    labelled('process', String(host.processId)),
    labelled('up', up),
    labelled('active jobs', String(host.activeJobs)),
  ];
  return [
    ...wrapRows(host.embedded ? 'Embedded runner: exits when idle' : 'Runner', width, {
      role: 'title',
    }),
    ...flowRows(groups, width),
    ...(state.restart === undefined ? [] : wrapRows(restartText(state), width, { role: 'warn', hang: 2 })),
    ...costRows(state, width),
    // Only a runner on this machine reports its data folder.
    ...(host.dataDirectory ? wrapRows(`data in ${host.dataDirectory}`, width, { role: 'dim', hang: 2 }) : []),
  ];
}

function deviceRows(device: Device, width: number): Row[] {
  const groups: Row[] = [
    labelled('state', STATE_WORDS[device.state], device.state === DeviceState.QUARANTINED ? 'bad' : undefined),
    labelled('arch', device.arch),
    labelled('SMs', String(device.multiprocessors)),
    ...(device.memoryBytes > 0n ? [labelled(memoryLabel(device), formatBytes(Number(device.memoryBytes)))] : []),
    labelled('L2', formatBytes(Number(device.l2Bytes))),
    labelled('SMEM/CTA', formatBytes(device.smemOptinBytes)),
    labelled('SMEM/SM', formatBytes(device.smemPerMultiprocessorBytes)),
    labelled('registers/SM', formatNumber(device.registersPerMultiprocessor)),
    ...(device.driverVersion === '' ? [] : [labelled('CUDA', device.driverVersion)]),
    ...(device.kernelDriverVersion === undefined ? [] : [labelled('driver', device.kernelDriverVersion)]),
    ...(device.roofline === undefined
      ? []
      : [
          labelled(
            'roofline',
            `${formatNumber(device.roofline.fp16TensorTflops)} TFLOP/s, ${formatNumber(device.roofline.memoryGbPerSecond)} GB/s`,
          ),
          labelled('from', device.roofline.source, 'dim'),
        ]),
  ];
  return [
    ...wrapRows(`${device.deviceId}: ${device.name}`, width, { role: 'title', hang: 2 }),
    ...(device.simulated ? wrapRows(SIMULATED_TEXT, width, { role: 'warn' }) : []),
    ...(device.stateReason === undefined
      ? []
      : wrapRows(withShortNames(`${STATE_WORDS[device.state]}: ${device.stateReason}`), width, {
          role: device.state === DeviceState.QUARANTINED ? 'bad' : 'dim',
          hang: 2,
        })),
    ...flowRows(groups, width),
  ];
}

/** The cost of the listed experiments, and of the host since its start. */
function costRows({ experiments, runner, now }: AppState, width: number): Row[] {
  return [...experimentCosts(experiments, width), ...instanceRows(runner.instance, now, width)];
}

function instanceRows({ startedAt, usdPerHour }: HostStart = {}, now: number, width: number): Row[] {
  if (startedAt === undefined || usdPerHour === undefined) return [];
  const hours = Math.max(0, now - startedAt) / 3_600_000;
  return flowRows(
    [
      labelled('host so far', formatCost(hours * usdPerHour)),
      [run(`${hours.toFixed(1)} h at $${usdPerHour}/h`, 'dim')],
    ],
    width,
  );
}

function experimentCosts(experiments: AppState['experiments'], width: number): Row[] {
  const costs = experiments.flatMap(({ costUsd }) => costUsd ?? []);
  const total = costs.reduce((sum, cost) => sum + cost, 0);
  return costs.length === 0
    ? wrapRows('cost so far: unknown, no device has an hourly rate', width, { role: 'dim', hang: 2 })
    : flowRows(
        [labelled('cost so far', formatCost(total)), [run(`of ${counted(costs.length, 'experiment')}`, 'dim')]],
        width,
      );
}

const LABEL_CELLS = 13;
const VALUE_CELLS = 18;

/** Clocks, temperature, power and memory over time, the newest at the right; if they are not read, the reason. */
function readingRows({ reading, memoryBytes }: Device, readings: readonly DeviceReading[], width: number): Row[] {
  const last = readings.at(-1);
  if (last === undefined)
    return reading?.missing === undefined
      ? []
      : wrapRows(`clocks ${notMeasured(reading.missing)}`, width, { role: 'dim', hang: 2 });
  const cells = Math.max(1, Math.min(60, width - LABEL_CELLS - VALUE_CELLS - 2));
  const over = (
    label: string,
    of: (each: DeviceReading) => number | undefined,
    text: (value: number) => string,
  ): Row[] => {
    const value = of(last);
    if (value === undefined) return [];
    const values = readings.flatMap((each) => of(each) ?? []);
    return [
      [
        run(padCells(label, LABEL_CELLS), 'dim'),
        run(padCells(text(value), VALUE_CELLS)),
        run(sparkline(values, cells), 'bar'),
      ],
    ];
  };
  const limit = last.powerLimitW === undefined ? '' : ` of ${formatNumber(last.powerLimitW)}`;
  return [
    ...over(
      'SM clock',
      ({ smClockMhz }) => smClockMhz,
      (value) => `${formatNumber(value)} MHz`,
    ),
    ...over(
      'memory clock',
      ({ memoryClockMhz }) => memoryClockMhz,
      (value) => `${formatNumber(value)} MHz`,
    ),
    ...over(
      'temperature',
      ({ temperatureC }) => temperatureC,
      (value) => `${formatNumber(value)} °C`,
    ),
    ...over(
      'power',
      ({ powerW }) => powerW,
      (value) => `${formatNumber(value, 3)}${limit} W`,
    ),
    ...over(
      'memory',
      ({ memoryUsedBytes }) => (memoryUsedBytes === undefined ? undefined : Number(memoryUsedBytes)),
      (value) => `${formatBytes(value)} of ${formatBytes(Number(memoryBytes))}`,
    ),
    ...over(
      'host load',
      ({ hostLoad }) => hostLoad,
      () => hostLoadText(last) ?? '',
    ),
    ...over('busy', ({ utilizationPercent }) => utilizationPercent, formatPercent),
  ];
}

function conditionRows(conditions: DeviceConditions | undefined, width: number): Row[] {
  if (conditions === undefined) return [];
  const figure = (label: string, value: number | undefined, unit: string): Row[] =>
    value === undefined ? [] : [labelled(label, `${formatNumber(value)} ${unit}`)];
  const groups = [
    ...figure('SM clock', conditions.smClockMhz, 'MHz'),
    ...figure('memory clock', conditions.memoryClockMhz, 'MHz'),
    ...figure('temperature', conditions.temperatureC, 'C'),
    ...figure('power', conditions.powerW, 'W'),
    ...figure('limit', conditions.powerLimitW, 'W'),
    ...(conditions.otherProcesses === undefined
      ? []
      : [
          labelled(
            'other processes',
            String(conditions.otherProcesses),
            conditions.otherProcesses > 0 ? 'warn' : undefined,
          ),
        ]),
    ...(hostLoadText(conditions) === undefined
      ? []
      : [labelled('host load', hostLoadText(conditions)!, isHostBusy(conditions) ? 'warn' : undefined)]),
    ...(conditions.throttleReasons.length > 0
      ? [labelled('throttled by', conditions.throttleReasons.join(', '), 'warn')]
      : []),
  ];
  const missing =
    conditions.notMeasured === undefined ? [] : wrapRows(notMeasured(conditions.notMeasured), width, { role: 'dim' });
  return groups.length + missing.length === 0
    ? []
    : [textRow('Device now', 'title'), ...flowRows(groups, width), ...missing];
}

/** The conditions that the shown job reports for this device. */
function conditionsOn(state: AppState, { deviceId }: Device): DeviceConditions | undefined {
  const job = attachedJob(state);
  return job?.device?.deviceId === deviceId ? job.conditions : undefined;
}

const MOST_QUEUED = 6;

/** The job that has the device, then the jobs that wait for it, in order. */
function queueRows({ jobs, now, lostAt }: AppState, { deviceId }: Device, width: number): Row[] {
  const open = jobs.filter((job) => job.state !== JobState.ENDED && (job.deviceId === deviceId || job.deviceId === ''));
  if (open.length === 0) return [labelled('queue', 'empty', 'dim')];
  const inOrder = open.toSorted(
    (a, b) =>
      Number(b.state === JobState.RUNNING) - Number(a.state === JobState.RUNNING) || a.queuePosition - b.queuePosition,
  );
  const rows = inOrder.slice(0, MOST_QUEUED).map((job): Row => {
    const { mark, role } = jobMark(job);
    const since = job.startTime ?? job.createTime;
    const text = job.state === JobState.RUNNING ? 'runs' : `${job.queuePosition} ahead`;
    return fitRow(
      [
        run(`  ${mark} `, role),
        run(jobTitle(job), 'title'),
        run(
          `  ${KIND_WORDS[job.kind]}, ${text}${since === undefined ? '' : ` ${formatElapsed(((lostAt ?? now) - timestampMs(since)) / 1000)}`}`,
          'dim',
        ),
      ],
      width,
    );
  });
  const more = inOrder.length > MOST_QUEUED ? [textRow(`  and ${inOrder.length - MOST_QUEUED} more in 6`, 'dim')] : [];
  return [[run(`queue of ${deviceId}`, 'dim')], ...rows, ...more];
}
