/**
 * `fa-tui export --kernelbench DIR`: KernelBench's reference (Model) and answer (ModelNew), everything in the text,
 * since the evaluator runs it where there is no file.
 */
import { exportName, type ExportedKernel } from './exported-kernel.ts';
import { cppPlan, entriesOf } from './cpp-plan.ts';
import { CPP_RUNTIME } from './cpp-runtime.ts';
import { inlineSources, renameToken, withoutComments } from './inline-sources.ts';

// The checker refuses these words wherever they stand.
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
  const name = exportName(kernel);
  return `import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

# ${kernel.manifest.id} ${kernel.origin.label}, build ${kernel.origin.buildId}, written by fa-tui export
CUDA = r'''
${torchExtensionSource(kernel)}'''

CPP = "torch::Tensor mha_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal);"

extension = load_inline(
    "flashcore_${name}",
    cpp_sources=CPP,
    cuda_sources=CUDA,
    functions=["mha_fwd"],
    extra_cuda_cflags=[
${extensionFlags(kernel)
  .map((flag) => `        ${JSON.stringify(flag)},`)
  .join('\n')}
    ],
)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, q, k, v):
        return extension.mha_fwd(q.contiguous(), k.contiguous(), v.contiguous(), False)
`;
}

/** cpp_extension turns off half's operators, and adds no -gencode of its own where one is given. */
export function extensionFlags({ flags, arch, parameters, manifest }: ExportedKernel): string[] {
  const macros = new Set([...Object.keys(parameters), ...manifest.constants.map(({ name }) => name)]);
  const target = arch.replace('sm_', 'compute_');
  return [
    ...flags.filter((flag) => !flag.startsWith('-arch') && !(flag.startsWith('-D') && macros.has(macroOf(flag)))),
    `-gencode=arch=${target},code=${arch}`,
    '-U__CUDA_NO_HALF_OPERATORS__',
    '-U__CUDA_NO_HALF_CONVERSIONS__',
    '-U__CUDA_NO_HALF2_OPERATORS__',
    '-U__CUDA_NO_BFLOAT16_CONVERSIONS__',
  ];
}

/**
 * The kernel, its plan and a binding in one translation unit. The kernel's macros are defined around its source alone:
 * the headers of PyTorch have names of their own.
 */
export function torchExtensionSource(kernel: ExportedKernel): string {
  const { manifest, parameters, flags, sources } = kernel;
  const macros = flags.filter((flag) => flag.startsWith('-D')).map((flag) => flag.slice(2).split('='));
  const plain = withoutComments(inlineSources(sources));
  const source = REFUSED_WORDS.reduce((text, word) => renameToken(text, word, `${word}_`), plain);
  return `#include <cuda_fp16.h>
#include <cuda_runtime.h>
${macros.map(([name, value]) => `#define ${name} ${value ?? 1}`).join('\n')}
${source}
${macros.map(([name]) => `#undef ${name}`).join('\n')}
${cppPlan(manifest, parameters)}
static const void* const FC_ENTRIES[] = {${entriesOf(manifest)
    .map((entry) => `(const void*)&${entry}`)
    .join(', ')}};
${CPP_RUNTIME}
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/extension.h>

torch::Tensor mha_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  for (const torch::Tensor& each : {q, k, v}) {
    TORCH_CHECK(each.is_cuda() && each.scalar_type() == at::kHalf && each.dim() == 4 && each.is_contiguous(),
                "${manifest.id}: q, k and v must be contiguous fp16 tensors [B, H, S, D] on a CUDA device");
    TORCH_CHECK(each.sizes() == q.sizes() && each.device() == q.device(),
                "${manifest.id}: q, k and v must have one shape and one device");
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const long long extent[4] = {q.size(0), q.size(1), q.size(2), q.size(3)};
  const FcPlan plan = fc_plan(extent[0], extent[1], extent[2], extent[3], causal);
  torch::Tensor o = torch::empty_like(q);
  std::vector<torch::Tensor> held;
  std::vector<void*> workspace;
  for (size_t bytes : plan.workspace) {
    held.push_back(torch::empty({(long long)(bytes > 0 ? bytes : 1)}, q.options().dtype(at::kByte)));
    workspace.push_back(held.back().data_ptr());
  }
  void* tensors[4] = {q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr()};
  fc_run(plan, extent, tensors, workspace.data(), at::cuda::getCurrentCUDAStream());
  return o;
}
`;
}

const macroOf = (flag: string): string => flag.slice(2).split('=')[0]!;
