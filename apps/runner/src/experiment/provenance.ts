import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  Verdict,
  ToolSchema,
  type Provenance,
  type ProvenanceSchema,
  type Tool,
  type VariantResult,
} from '@flashcore/shared/contract';
import { isSdpa } from '@flashcore/shared/rivals';
import { ENGINE_NAMES } from '../build/host-libraries.ts';
import type { FoundTool } from '../build/toolchain.ts';
import { INPUTS_VERSION, PROTOCOL_VERSION } from '../spec/benchmark-protocol.ts';
import type { JobFound } from '../phases/job-found.ts';
import type { JobServices } from '../phases/job-services.ts';
import type { DeviceRates } from './cost.ts';

/** The runner, as provenances name it. */
export interface RunnerIdentity {
  version: string;
  buildId: string;
  rates: DeviceRates;
}

/** The provenance of a result: on which device it was measured, with which build and tools. */
export function provenanceOf(
  services: JobServices,
  { seeds, birth, variants }: JobFound,
  { runner, startTime }: { runner: RunnerIdentity; startTime: Date },
): MessageInitShape<typeof ProvenanceSchema> {
  const { spec } = services;
  return {
    runnerVersion: runner.version,
    runnerBuildId: runner.buildId,
    device: spec.device,
    hostName: hostname(),
    tools: toolsUsed(services, variants),
    sourceDigest: sourceDigest(spec.kernel.sourceDigest, birth.buildSources),
    time: timestampFromDate(startTime),
    seeds,
    drawnShapes: variants.some(({ verify }) => verify !== undefined) ? [...(spec.verify?.drawn?.shapes ?? [])] : [],
    protocol: PROTOCOL_VERSION,
    inputsVersion: INPUTS_VERSION,
    dtype: spec.resolved.dtype,
    problem: spec.kernel.manifest.problem.id,
    flagsDigest: birth.flagsDigest,
    ...(spec.judged && {
      gatesDigest: spec.judged.digest,
      gatesSource: spec.judged.source,
      plan: spec.judged.plan.name,
    }),
    ...(spec.kernel.git && { git: spec.kernel.git }),
    conditions: birth.conditions ?? {
      notMeasured:
        spec.method === 'build' ? 'a build does not open the device' : 'the device was not ready before the job ended',
    },
  } satisfies Partial<Provenance> | MessageInitShape<typeof ProvenanceSchema>;
}

/**
 * The emulator's engine, along with the headers that its PTX was made with: CUDA's for NVRTC, their substitutes for
 * clang.
 */
function emulatorTools(tools: JobServices['tools']): Tool[] {
  const { engine } = tools.emulation();
  const headers = tools.deviceHeadersDigest();
  const cudaHeaders = tools.cudaHeadersVersion();
  return [
    create(ToolSchema, { name: 'emulator', version: ENGINE_NAMES[engine] }),
    ...(headers === undefined ? [] : [create(ToolSchema, { name: 'device headers', version: headers })]),
    ...(cudaHeaders === undefined ? [] : [create(ToolSchema, { name: 'CUDA headers', version: cudaHeaders })]),
  ];
}

/**
 * Digest of the kernel's folder and of the build's sources outside it, because a changed primitive makes a different
 * kernel.
 */
function sourceDigest(folder: string, buildSources: string | undefined): string {
  return buildSources === undefined ? folder : createHash('sha256').update(`${folder}\n${buildSources}`).digest('hex');
}

/**
 * The compilers of the builds, as the builds report them, because another host may have compiled. All other tools are
 * as this host reports them.
 */
function compilersUsed(found: readonly FoundTool[], variants: readonly VariantResult[]): FoundTool[] {
  const runs = variants.flatMap(({ build }) => build?.runs ?? []);
  const names = new Set([...found.map(({ name }) => name), ...runs.map(({ compiler }) => compiler)]);
  return [...names].map((name) => {
    const here = found.find((tool) => tool.name === name);
    const version = runs.find(({ compiler }) => compiler === name)?.version;
    return version === undefined || version === here?.version ? here! : { name, version, archs: [] };
  });
}

/** The compilers, and also the emulator's engine, ncu, compute-sanitizer and rivals if they were used. */
function toolsUsed({ spec, tools }: JobServices, variants: readonly VariantResult[]): Tool[] {
  const profiled = variants.some(({ profile }) => profile?.verdict === Verdict.PASS);
  const sanitized = spec.verify?.sanitize === true && !spec.device.simulated;
  const found = tools.toolchain.describe().filter(({ missing }) => missing === undefined);
  const used = found.filter(({ name }) => (name === 'ncu' && profiled) || (name === 'compute-sanitizer' && sanitized));
  const compilers = found.filter(({ archs }) => archs.length > 0);
  const rivals = variants.flatMap(({ benchmarks }) => benchmarks.flatMap(({ sdpa }) => sdpa));
  const versions = new Map(
    rivals.map((rival) =>
      isSdpa(rival) ? ['PyTorch', rival.version.replace(/^PyTorch /, '')] : [rival.name, rival.version],
    ),
  );
  return [
    ...[...compilersUsed(compilers, variants), ...used].map((tool) => create(ToolSchema, tool)),
    ...tools.headers.now().map(({ name, digest }) => create(ToolSchema, { name: `headers ${name}`, version: digest })),
    ...(spec.device.simulated ? emulatorTools(tools) : []),
    ...[...versions].map(([name, version]) => create(ToolSchema, { name, version })),
  ];
}
