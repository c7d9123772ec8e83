/**
 * `fa-tui export --popcorn FILE`: a submission for GPU MODE's leaderboards. Their server refuses every text with the
 * word "stream", even in comments, so launches go to the default stream.
 */
import { NothingToExport } from './collect.ts';
import { exportName, warningAtImport, type ExportedKernel } from './exported-kernel.ts';
import { withoutComments } from './inline-sources.ts';
import { rawText } from './kernelbench.ts';
import { extensionFlags, kernelUnit, torchBinding } from './kernel-unit.ts';

const REFUSED_WORD = /stream/i;

/** Errors: NothingToExport if the kernel's code has the refused word. */
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
  return `# ${manifest.id} ${origin.label} for ${kernel.arch}, build ${origin.buildId}, written by fa-tui export
# popcorn submit FILE --leaderboard NAME --gpu GPU --mode test
import torch
from torch.utils.cpp_extension import load_inline

from task import input_t, output_t
${warningAtImport(kernel)}
# Whether the leaderboard's problem hides the keys behind a query.
CAUSAL = False

CUDA = r'''
${rawText(`${kernelUnit(kernel, { rewrite: withoutComments, queue: 'default' })}
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

${torchBinding(kernel, 'default')}`)}'''

CPP = "torch::Tensor mha_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal);"

extension = load_inline(
    "flashcore_${exportName(kernel)}",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["mha_fwd"],
    extra_cuda_cflags=[
${extensionFlags(kernel)
  .map((flag) => `        ${JSON.stringify(flag)},`)
  .join('\n')}
    ],
)


# The first three inputs must be Q, K and V as [B, H, S, D].
def custom_kernel(data: input_t) -> output_t:
    q, k, v = data[:3]
    return extension.mha_fwd(q.contiguous(), k.contiguous(), v.contiguous(), CAUSAL)
`;
}
