/** Checks the data from a runner before it goes into programs that people run. Each part must have its proper form. */
import { FlashcoreError } from '@flashcore/shared/contract';
import { plainLine } from '@flashcore/shared/text';
import type { ExportedKernel } from './exported-kernel.ts';

const ARCH = /^sm_\d{2,3}[af]?$/;
const DIGEST = /^[0-9a-f]{64}$/;
const FLAG = /^(?:-std=c\+\+\d\d|-O\d|--use_fast_math|-lineinfo|-maxrregcount=\d+|-arch=sm_\w+|-D\w+(?:=[\w.+-]+)?)$/;

/** The kernel with single-line texts. Errors: INTERNAL naming a part with another form. */
export function withToldForms(kernel: ExportedKernel): ExportedKernel {
  const { arch, flags, parameters, manifest, origin } = kernel;
  const names = Object.keys(parameters);
  const wrong = [
    ...(ARCH.test(arch) ? [] : [`the architecture ${arch}`]),
    ...(DIGEST.test(origin.buildId) ? [] : [`the build_id ${origin.buildId}`]),
    ...flags
      .filter((flag) => !FLAG.test(flag) && !manifest.compile.flags.includes(flag))
      .map((flag) => `the flag ${flag}`),
    ...names.filter((name) => !Object.hasOwn(manifest.parameters, name)).map((name) => `the parameter ${name}`),
  ][0];
  if (wrong !== undefined)
    throw new FlashcoreError(
      'INTERNAL',
      { kernel: manifest.id },
      `Nothing is exported of ${manifest.id}: the runner told ${plainLine(wrong).slice(0, 120)}, which no build has; update the runner, or use another`,
    );
  const { label, compiler, runner, job, sourceDigest } = origin;
  const told = { label, compiler, runner, job, sourceDigest };
  const lines = Object.entries(told).map(([name, text]) => [name, plainLine(text)]);
  return { ...kernel, origin: { ...origin, ...(Object.fromEntries(lines) as typeof told) } };
}
