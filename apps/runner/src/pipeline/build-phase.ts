import { FindingKind, Phase } from '@flashcore/shared';
import type { KernelBuild } from '../build/kernel-builder.ts';
import { emitFindings, emitLog, startPhase, type VariantScope } from './job-scope.ts';

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
  const build = await tools.kernels.build(scope.build, { signal: job.signal, onLine: (source, line) => emitLog(job, source, line) });
  for (const diagnostic of build.result.diagnostics) job.emit({ case: 'diagnostic', value: diagnostic });
  job.emit({ case: 'buildResult', value: build.result });
  emitFindings(job, build.findings);
  return build;
}
