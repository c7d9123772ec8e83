import { create } from '@bufbuild/protobuf';
import { FindingKind, FindingSchema, type Finding, type Shape } from '@flashcore/shared/contract';
import { formatShape, planLaunches } from '@flashcore/shared/kernels';
import { SANITIZER_TOOLS } from '../profile/sanitizer.ts';
import type { SanitizerError } from '../profile/sanitizer-report.ts';
import { type DeviceImage, withScratch } from '../../worker/messages/launchable.ts';
import { emitLog, emitWarning, type VariantServices } from './job-services.ts';

/** Runs a case under each tool of compute-sanitizer; errors become findings, with thread and line. */
export async function sanitize(
  services: VariantServices,
  { image, shape }: { image: DeviceImage; shape: Shape | undefined },
): Promise<Finding[]> {
  const {
    job,
    runtime,
    resolved,
    spec: { kernel },
  } = services;
  const run = runtime.instruments.sanitizer();
  if ('missing' in run) {
    emitWarning(job, `compute-sanitizer was not run: ${run.missing}`);
    return [];
  }
  if (!shape) return [];
  const plan = withScratch(planLaunches(kernel.manifest, resolved, shape), image);
  const findings: Finding[] = [];
  for (const tool of SANITIZER_TOOLS) {
    const answer = await run({
      tool,
      image,
      shape,
      plan,
      signal: job.signal,
      onLine: () => undefined,
    });
    if ('missing' in answer) emitWarning(job, answer.missing);
    else findings.push(...answer.errors.slice(0, 1).map((error) => findingOfError(error, shape)));
    emitLog(
      job,
      'runner',
      `compute-sanitizer ${tool} on ${formatShape(shape)}: ${'errors' in answer ? `${answer.errors.length} errors` : 'no answer'}`,
    );
  }
  return findings;
}

const REMEDIES: Partial<Record<FindingKind, string>> = {
  [FindingKind.RACE]:
    'Put a __syncthreads() between the two accesses; a __syncwarp() is enough only if no thread of another warp reads or writes there',
  [FindingKind.DEADLOCK]: 'All threads that a barrier counts must reach it, or none: move it out of the branch',
  [FindingKind.OUT_OF_BOUNDS]: "Check this index against the tensor's extent",
  [FindingKind.MISALIGNED_ADDRESS]: 'A vector access needs an address that is a multiple of its width',
  [FindingKind.WRONG_RESULT]: 'The kernel read memory that it never wrote: initialize it, or correct the index',
};

function findingOfError({ title, places, thread, block, text }: SanitizerError, shape: Shape): Finding {
  const kind = kindOf(title, text);
  const [first] = places;
  return create(FindingSchema, {
    kind,
    message: `compute-sanitizer: ${title}${places.length > 0 ? `, at ${places.map(({ file, line }) => `${file}:${line}`).join(' and ')}` : ''}${thread && block ? `, thread (${thread.join(',')}) of block (${block.join(',')})` : ''}`,
    remedy: REMEDIES[kind] ?? '',
    shape,
    ...(first && {
      location: {
        file: first.file,
        line: first.line,
        thread: thread ?? [],
        block: block ?? [],
        access: /(?<= )(?:write|read)(?= )/.exec(title)?.[0],
      },
    }),
  });
}

function kindOf(title: string, text: string): FindingKind {
  if (/Race|hazard/.test(title)) return FindingKind.RACE;
  if (/Barrier error/.test(title)) return FindingKind.DEADLOCK;
  if (/Uninitialized/.test(title)) return FindingKind.WRONG_RESULT;
  return /misaligned/i.test(text) ? FindingKind.MISALIGNED_ADDRESS : FindingKind.OUT_OF_BOUNDS;
}
