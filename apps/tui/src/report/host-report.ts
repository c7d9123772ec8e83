import { DeviceState, type Caller, type Device, type Host, type Tool } from '@flashcore/shared/contract';
import type { ReportFormat } from './format.ts';
import { formatBytes } from '../present/numbers.ts';
import { count, figure, instant } from './numbers.ts';
import { heading, labelled, printable } from './text.ts';

/** What a runner has and can do; for a tool that is missing, what is not possible without it. */
export function hostReport(host: Host, format: ReportFormat, caller?: Caller): string[] {
  const you = caller && caller.name !== 'local' ? labelled('you', `${caller.name}, ${caller.role}`, format) : [];
  const sections = [
    [...runner(host, format), ...you],
    ...host.devices.map((device) => deviceSection(device, format)),
    tools(host.tools, format),
  ];
  return sections.flatMap((lines, i) => (i === 0 ? lines : ['', ...lines]));
}

function runner(host: Host, format: ReportFormat): string[] {
  const kind = host.embedded ? 'embedded, ends by itself when unused' : 'serves until it is stopped';
  return [
    ...heading(
      `flashcore-runner ${printable(host.runnerVersion)}`,
      `API ${host.apiVersion}, build ${host.buildId.slice(0, 12)}`,
      format,
    ),
    ...labelled('host', `${host.hostName}, ${host.platform}`, format),
    ...labelled('process', `${host.processId} since ${instant(host.startTime)}, ${kind}`, format),
    ...labelled('jobs', `${host.activeJobs} waiting or running`, format),
    ...labelled('data', host.dataDirectory, format),
    ...labelled('isolation', host.isolation ? `${host.isolation.kind}: ${host.isolation.detail}` : 'unknown', format),
  ];
}

// What a manifest's `cluster` and `l2_persist` have an effect on.
function launchOptions({ clusters, persistingL2Bytes }: Device, format: ReportFormat): string[] {
  const options = [
    clusters ? 'clusters' : '',
    persistingL2Bytes > 0n ? `L2 windows of up to ${formatBytes(Number(persistingL2Bytes))}` : '',
  ].filter(Boolean);
  return options.length === 0 ? [] : labelled('launches', options.join(', '), format);
}

function deviceSection(device: Device, format: ReportFormat): string[] {
  const state = (DeviceState[device.state] ?? 'unknown').toLowerCase();
  const kernelDriver = device.kernelDriverVersion ? `, kernel driver ${device.kernelDriverVersion}` : '';
  return [
    ...heading(
      `Device ${printable(device.deviceId)}`,
      device.simulated ? 'simulated: its times are not GPU times' : '',
      format,
    ),
    ...labelled('name', `${device.name}, ${device.arch}`, format),
    ...labelled('state', device.stateReason ? `${state}: ${device.stateReason}` : state, format),
    ...labelled(
      'size',
      `${count(device.multiprocessors, 'SM')}, ${formatBytes(Number(device.memoryBytes))} memory, ${formatBytes(Number(device.l2Bytes))} L2`,
      format,
    ),
    ...labelled(
      'SMEM',
      `${formatBytes(device.smemOptinBytes)} a CTA by opt-in, ${formatBytes(device.smemPerMultiprocessorBytes)} an SM`,
      format,
    ),
    ...labelled('registers', `${device.registersPerMultiprocessor} an SM`, format),
    ...launchOptions(device, format),
    ...labelled('driver', `CUDA ${device.driverVersion}${kernelDriver}`, format),
    ...(device.roofline
      ? labelled(
          'ceilings',
          `${figure(device.roofline.fp16TensorTflops)} TFLOP/s fp16 tensor, ${figure(device.roofline.memoryGbPerSecond)} GB/s (${device.roofline.source})`,
          format,
        )
      : []),
  ];
}

function tools(list: readonly Tool[], format: ReportFormat): string[] {
  return [...heading('Tools', '', format), ...list.flatMap((tool) => labelled(tool.name, toolText(tool), format))];
}

function toolText(tool: Tool): string {
  if (!tool.version) return `missing: ${tool.missing ?? 'nobody knows why'}`;
  return tool.archs.length > 0 ? `${tool.version} for ${tool.archs.join(' ')}` : tool.version;
}
