/**
 * `fa-tui export --popcorn FILE`: a submission for GPU MODE's leaderboards. Their server refuses every text with the
 * word "stream", even in comments, so launches go to the default stream.
 */
import { NothingToExport } from './collect.ts';
import { warningAtImport, type ExportedKernel } from './exported-kernel.ts';
import { inlineExtension, kernelUnit, torchBinding, withoutComments } from './kernel-unit.ts';

const REFUSED_WORD = /stream/i;

/** Returns the text of the submission. Errors: NothingToExport if the kernel's code has the refused word. */
export function popcornFile(kernel: ExportedKernel): string {
  const { manifest, origin } = kernel;
  for (const { path, text } of kernel.sources) {
    const line = withoutComments(text)
      .split('\n')
      .findIndex((each) => REFUSED_WORD.test(each));
    if (line >= 0)
      throw new NothingToExport(
        `--popcorn: GPU MODE refuses a submission with the word "stream", which is in line ${line + 1} of ${path}: use another name there`,
      );
  }
  const source = `${kernelUnit(kernel, { rewrite: withoutComments, queue: 'default' })}
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

${torchBinding(kernel, 'default')}`;
  return `# ${manifest.id} ${origin.label} for ${kernel.arch}, build ${origin.buildId}, written by fa-tui export
# popcorn submit FILE --leaderboard NAME --gpu GPU --mode test
import torch
from torch.utils.cpp_extension import load_inline

from task import input_t, output_t
${warningAtImport(kernel)}
# Whether the leaderboard's problem hides the keys behind a query.
CAUSAL = False

${inlineExtension(kernel, source)}

# The first three inputs must be Q, K and V as [B, H, S, D].
def custom_kernel(data: input_t) -> output_t:
    q, k, v = data[:3]
    return extension.mha_fwd(q.contiguous(), k.contiguous(), v.contiguous(), CAUSAL)
`;
}
