import { join } from 'node:path';
import { referenceSource } from '@flashcore/shared/kernels';
import type { Executor } from '../../worker/messages/device.ts';
import { boxedReference } from '../workers/worker-entry.ts';
import { emitLog, type VariantServices } from './job-services.ts';

/**
 * The process that runs the reference.cpp of the kernel's problem; undefined if the built-in oracle covers the problem.
 * Errors: INTERNAL if reference.cpp does not compile; the job's log has the compiler's output.
 */
export async function referenceProcess({ job, spec, tools, runtime }: VariantServices): Promise<Executor | undefined> {
  const { problem } = spec.kernel.manifest;
  if (problem.operation !== 'own') return undefined;
  const program = await tools.libraries.ownReference(referenceSource(problem), {
    signal: job.signal,
    onLine: (source, line) => emitLog(job, source, line),
  });
  const name = spec.device.deviceId;
  const scratch = join(runtime.instruments.dataDirectory, 'references', name);
  return boxedReference(await tools.box(), { program, name, scratch });
}
