/** `fa-tui export --robust-kbench DIR`: a task folder of robust-kbench with the kernel as its forward.cu. */
import type { Shape } from '@flashcore/shared/contract';
import { DTYPES, valuesOf, type TensorDtype } from '@flashcore/shared/kernels';
import { unverifiedNotice, type ExportedKernel, exportShapes } from './exported-kernel.ts';
import { capability, extensionFlags, kernelUnit, torchBinding } from './kernel-unit.ts';

export const robustKbenchFiles = (kernel: ExportedKernel): Record<string, string> => ({
  'func_forward.py': funcForward(kernel.dtype),
  'config_forward.json': `${JSON.stringify(configOf(exportShapes(kernel)), null, 2)}\n`,
  'forward.cu': forwardSource(kernel),
});

const funcForward = (dtype: TensorDtype): string => `import torch
import torch.nn as nn
import torch.nn.functional as F


def forward_fn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """
    Scaled dot-product attention: softmax(q k^T / sqrt(D)) v, each row i attending to the columns 0..i where causal.

    Args:
        q, k, v: [B, H, S, D] in ${dtype}, contiguous
        causal: whether the mask is applied
    """
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


class Model(nn.Module):
    def __init__(self, causal: bool = False):
        super().__init__()
        self.causal = causal

    def forward(self, q, k, v, fn=forward_fn):
        return fn(q, k, v, self.causal)


def get_inputs(batch_size: int = 2, num_heads: int = 8, seq_len: int = 512, head_dim: int = 64):
    shape = (batch_size, num_heads, seq_len, head_dim)
    return [torch.randn(shape, dtype=torch.${DTYPES[dtype].torch}) for _ in range(3)]


input_names = ["q", "k", "v"]
`;

function inputOf(shape: Shape) {
  const { B, H, S, D } = valuesOf(shape);
  return { batch_size: B, num_heads: H, seq_len: S, head_dim: D };
}

/**
 * robust-kbench combines every init with every input, so only sizes that the kernel takes with all of its masks are
 * used.
 */
function configOf(shapes: readonly Shape[]): unknown {
  const masks = [...new Set(shapes.map(({ causal }) => causal))];
  const sizes = new Map<string, { input: ReturnType<typeof inputOf>; masks: number }>();
  for (const shape of shapes) {
    const input = inputOf(shape);
    const key = JSON.stringify(input);
    sizes.set(key, { input, masks: (sizes.get(key)?.masks ?? 0) + 1 });
  }
  const inputs = [...sizes.values()].filter((each) => each.masks === masks.length).map(({ input }) => input);
  return {
    single_input_configs: inputs.slice(0, 1),
    single_init_configs: [{ causal: masks[0] ?? false }],
    single_shared_configs: [{}],
    multi_input_configs: inputs,
    multi_init_configs: masks.map((causal) => ({ causal })),
    multi_shared_configs: [{}],
  };
}

const noticeLine = (kernel: ExportedKernel): string => {
  const notice = unverifiedNotice(kernel);
  return notice === undefined ? '' : `// ${notice}.\n#warning ${JSON.stringify(notice)}\n`;
};

/** robust-kbench compiles with its own flags, so the source itself sets the options that a source can set. */
const forwardSource = (
  kernel: ExportedKernel,
): string => `// ${kernel.manifest.id} ${kernel.origin.label}, build ${kernel.origin.buildId}, written by fa-tui export.
${noticeLine(kernel)}// The kernel's own flags: ${extensionFlags(kernel).join(' ')}
// robust-kbench gives -O3 --use_fast_math; set TORCH_CUDA_ARCH_LIST=${capability(kernel.arch)} for the architecture.
#undef __CUDA_NO_HALF_OPERATORS__
#undef __CUDA_NO_HALF_CONVERSIONS__
#undef __CUDA_NO_HALF2_OPERATORS__
#undef __CUDA_NO_BFLOAT16_CONVERSIONS__
${kernelUnit(kernel)}
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

${torchBinding(kernel)}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.def("forward", &mha_fwd, "attention forward", pybind11::arg("q"), pybind11::arg("k"), pybind11::arg("v"),
        pybind11::arg("causal"));
}
`;
