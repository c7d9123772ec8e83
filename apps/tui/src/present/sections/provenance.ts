/** Where a result comes from: device, driver, compilers, source, seeds, protocol, cost. */
import type { Device, GitState, JobResult, Provenance, Tool } from '@flashcore/shared/contract';
import { fact, facts, heading, type Block } from '../blocks.ts';
import { counted, formatCost, formatInstant, formatSeconds } from '../numbers.ts';
import { dtypeWord } from '../words.ts';
import { conditionsText } from './conditions.ts';

export function provenanceBlocks(result: JobResult): Block[] {
  const { provenance } = result;
  if (!provenance) return [];
  return [
    heading('Provenance'),
    facts(
      fact('device', provenance.device ? deviceText(provenance.device) : 'none'),
      fact('driver', provenance.device ? driverText(provenance.device) : 'none'),
      fact('tools', toolsText(provenance.tools)),
      fact('conditions', conditionsText(provenance.conditions)),
      fact('source', provenance.sourceDigest || 'unknown'),
      fact('flags', provenance.flagsDigest || 'nothing was compiled'),
      fact('seeds', seedsText(result)),
      dtypeWord(provenance.dtype) === '' ? undefined : fact('tensors', provenance.dtype),
      fact('protocol', provenance.protocol || 'nothing was timed'),
      provenance.git && fact('commit', commitText(provenance.git)),
      provenance.gatesDigest ? fact('gates', `${provenance.gatesSource}, ${provenance.gatesDigest}`) : undefined,
      fact('runner', runnerText(provenance)),
      fact('started', formatInstant(provenance.time)),
      fact('cost', costText(result)),
    ),
  ];
}

const commitText = ({ repository, commit, branch, dirty }: GitState): string =>
  `${commit} of ${repository}${branch ? `, branch ${branch}` : ''}${dirty ? ', with changes that are not committed' : ''}`;

/** Seeds of the cases, then seeds of the timed inputs. */
function seedsText({ provenance, variants }: JobResult): string {
  const seeds = provenance?.seeds ?? [];
  const verified = new Set(variants.flatMap(({ verify }) => verify?.seeds ?? []));
  const others = seeds.filter((seed) => !verified.has(seed));
  if (verified.size === 0 || others.length === 0) return seeds.join(' ') || 'none used';
  return `verify ${[...verified].join(' ')}; timing ${others.join(' ')}`;
}

/** A device such as "flashcore CPU emulator (L4 limits), sm_89, 58 SMs, simulated". */
export function deviceText(device: Device): string {
  return [device.name, device.arch, counted(device.multiprocessors, 'SM'), device.simulated ? 'simulated' : '']
    .filter((part) => part !== '')
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

const runnerText = ({ runnerVersion, runnerBuildId, hostName, schedulerJob }: Provenance): string =>
  `${runnerVersion} (build ${runnerBuildId.slice(0, 12)}) on ${hostName}${schedulerJob === undefined ? '' : `, pilot of job ${schedulerJob}`}`;

function costText(result: JobResult): string {
  // A build does not use the device, but the job holds the device while it builds.
  const held = `device held for ${formatSeconds(result.deviceSeconds)}`;
  if (result.costUsd === undefined) return result.costMissing ? `${held}, ${result.costMissing}` : held;
  const rate =
    result.usdPerHour === undefined
      ? ''
      : ` at ${result.usdPerHour} USD/h (${result.rateSource ?? 'source not known'})`;
  return `${held}, ${formatCost(result.costUsd)}${rate}`;
}
