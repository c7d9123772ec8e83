import type { Device, GitState, JobResult, Provenance, Tool } from '@flashcore/shared/contract';
import { conditionsText } from './benchmark-section.ts';
import type { ReportFormat } from './format.ts';
import { count, instant, seconds } from './numbers.ts';
import { heading, labelled } from './text.ts';

/** A result's birth certificate: device, driver, compilers, source, seeds, protocol, cost. */
export function provenanceSection(result: JobResult, format: ReportFormat): string[] {
  const { provenance } = result;
  if (!provenance) return [];
  const items: [string, string][] = [
    ['device', provenance.device ? deviceText(provenance.device) : 'none'],
    ['driver', provenance.device ? driverText(provenance.device) : 'none'],
    ['tools', toolsText(provenance.tools)],
    ['conditions', conditionsText(provenance.conditions)],
    ['source', provenance.sourceDigest || 'unknown'],
    ['flags', provenance.flagsDigest || 'nothing was compiled'],
    ['seeds', seedsText(result)],
    ['protocol', provenance.protocol || 'nothing was timed'],
    ...(provenance.git ? [['commit', commitText(provenance.git)] as [string, string]] : []),
    ...(provenance.gatesDigest
      ? [['gates', `${provenance.gatesSource}, ${provenance.gatesDigest}`] as [string, string]]
      : []),
    ['runner', runnerText(provenance)],
    ['started', instant(provenance.time)],
    ['cost', costText(result)],
  ];
  return [...heading('Provenance', '', format), ...items.flatMap(([label, text]) => labelled(label, text, format))];
}

const commitText = ({ repository, commit, branch, dirty }: GitState): string =>
  `${commit} of ${repository}${branch ? `, branch ${branch}` : ''}${dirty ? ', with changes that are not committed' : ''}`;

/** Those of the cases, then those of inputs that were timed. */
function seedsText({ provenance, variants }: JobResult): string {
  const seeds = provenance?.seeds ?? [];
  const verified = new Set(variants.flatMap(({ verify }) => verify?.seeds ?? []));
  const others = seeds.filter((seed) => !verified.has(seed));
  if (verified.size === 0 || others.length === 0) return seeds.join(' ') || 'none used';
  return `verify ${[...verified].join(' ')}; timing ${others.join(' ')}`;
}

/** "flashcore CPU emulator (L4 limits), sm_89, 58 SMs, simulated". */
export function deviceText(device: Device): string {
  return [device.name, device.arch, count(device.multiprocessors, 'SM'), device.simulated ? 'simulated' : '']
    .filter(Boolean)
    .join(', ');
}

function driverText(device: Device): string {
  const cuda = device.driverVersion ? `CUDA ${device.driverVersion}` : 'unknown version';
  if (device.simulated) return `${cuda} (of the emulator)`;
  return device.kernelDriverVersion ? `${cuda}, kernel driver ${device.kernelDriverVersion}` : cuda;
}

const toolsText = (tools: readonly Tool[]): string =>
  tools
    .flatMap(({ name, version }) => (version ? [version.includes(name) ? version : `${name} ${version}`] : []))
    .join(', ') || 'none';

const runnerText = ({ runnerVersion, runnerBuildId, hostName }: Provenance): string =>
  `${runnerVersion} (build ${runnerBuildId.slice(0, 12)}) on ${hostName}`;

function costText(result: JobResult): string {
  // A build does not open the device, but no other job has it meanwhile.
  const held = `device held for ${seconds(result.deviceSeconds)}`;
  if (result.costUsd === undefined) return result.costMissing ? `${held}, ${result.costMissing}` : held;
  const rate =
    result.usdPerHour === undefined
      ? ''
      : ` at ${result.usdPerHour} USD/h (${result.rateSource ?? 'source not known'})`;
  return `${held}, ${result.costUsd.toFixed(4)} USD${rate}`;
}
