import { create } from '@bufbuild/protobuf';
import { FindingKind, Phase, FlashcoreError, VariantSchema } from '@flashcore/shared/contract';
import type { KernelBuild } from '../build/kernel-builder.ts';
import { emitFindings, emitLog, emitWarning, startPhase, type VariantScope } from './job-scope.ts';

/** Findings of a build that can run all the same. */
const HARMLESS: readonly FindingKind[] = [FindingKind.REGISTER_SPILLS];

/** Whether there is nothing to run: it does not compile, lacks its entry, or could not be launched. */
export function stopsAfterBuild({ image, findings }: KernelBuild): boolean {
  return image === undefined || findings.some(({ kind }) => !HARMLESS.includes(kind));
}

/** Compiles a variant, streaming what the compilers say. */
export async function runBuild(scope: VariantScope): Promise<KernelBuild> {
  const { job, tools } = scope;
  startPhase(scope, Phase.BUILD, 0);
  const build = await tools.kernels.build(scope.build, {
    signal: job.signal,
    onLine: (source, line) => emitLog(job, source, line),
  });
  for (const diagnostic of build.result.diagnostics) job.emit({ case: 'diagnostic', value: diagnostic });
  job.emit({ case: 'buildResult', value: build.result });
  if (build.sassMissing !== undefined) emitWarning(job, `No SASS listing was kept: ${build.sassMissing}`);
  emitFindings(job, build.findings);
  if (build.result.succeeded) keepBuild(scope, build.result.buildId);
  return build;
}

/**
 * Notes what the build was made of, so that its id can be asked for. Errors: BUILD_NOT_FOUND where it was asked for and
 * became another: nothing may be told about it then.
 */
function keepBuild({ spec: { kernel, fallback }, kernels, resolved }: VariantScope, buildId: string): void {
  const wanted = resolved === fallback ? undefined : kernel.build?.id;
  if (wanted !== undefined && wanted !== buildId) {
    throw new FlashcoreError(
      'BUILD_NOT_FOUND',
      { build_id: wanted, found: buildId },
      `Build the kernel anew: compiler, device or shared headers of this runner have changed since ${wanted}, whose sources now give ${buildId}`,
    );
  }
  const { parameters, arch = '', maxRegisters, fastMath, keepPtx, keepSass } = resolved;
  const values = Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, BigInt(value)]));
  kernels.keepBuild(
    buildId,
    kernel,
    create(VariantSchema, { parameters: values, arch, maxRegisters, fastMath, keepPtx, keepSass }),
  );
}
