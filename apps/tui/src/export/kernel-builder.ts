/** `fa-tui export --hf DIR`: a source project that Hugging Face's kernel-builder can build for the Hub. */
import { DTYPES, type TensorDtype } from '@flashcore/shared/kernels';
import { markdownText } from '../present/plain/markdown-painter.ts';
import { exportName, unverifiedNotice, verdictText, warningAtImport, type ExportedKernel } from './exported-kernel.ts';
import { capability, extensionFlags, kernelUnit, torchOut } from './kernel-unit.ts';

export function kernelBuilderFiles(kernel: ExportedKernel): Record<string, string> {
  const module = `flashcore_${kernel.manifest.id}`;
  return {
    'build.toml': buildToml(kernel, module),
    'flake.nix': FLAKE,
    'CARD.md': cardOf(kernel, module),
    [`${module}_cuda/mha.cu`]: kernelSource(kernel),
    'torch-ext/torch_binding.h': BINDING_HEADER,
    'torch-ext/torch_binding.cpp': BINDING,
    [`torch-ext/${module}/__init__.py`]: initOf(kernel),
    [`tests/test_${module}.py`]: testOf(module, kernel.dtype),
    'benchmarks/benchmark.py': benchmarkOf(kernel.dtype),
  };
}

function buildToml(kernel: ExportedKernel, module: string): string {
  // cuda-capabilities sets the architecture, so the flag is left out.
  const flags = extensionFlags(kernel).filter((flag) => !flag.startsWith('-gencode') && !flag.startsWith('-D'));
  return `[general]
name = "${module.replaceAll('_', '-')}"
version = 1
edition = 5
${kernel.license === undefined ? '# license = "…": the licence of your kernel; nothing claims one here' : `license = ${JSON.stringify(kernel.license)}`}
backends = ["cuda"]

[torch]
src = ["torch-ext/torch_binding.cpp", "torch-ext/torch_binding.h"]

[kernel.mha]
backend = "cuda"
depends = ["torch"]
src = ["${module}_cuda/mha.cu"]
cuda-capabilities = ["${capability(kernel.arch)}"]
cuda-flags = [${flags.map((flag) => JSON.stringify(flag)).join(', ')}]
`;
}

const FLAKE = `{
  description = "Flake of a kernel exported by flashcore";
  inputs.kernel-builder.url = "github:huggingface/kernels";
  outputs =
    { self, kernel-builder }:
    kernel-builder.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };
}
`;

/** Markdown keeps every character of code except backticks and line ends. */
const code = (text: string): string => `\`${text.replaceAll(/[\s`]+/g, ' ')}\``;

const cardOf = (kernel: ExportedKernel, module: string): string => {
  const { manifest, dtype, origin, arch, license } = kernel;
  const notice = unverifiedNotice(kernel);
  const limits = manifest.limits.map(({ require, because }) => `${code(require.text)}: ${markdownText(because)}`);
  return `---
library_name: kernels
${license === undefined ? '' : `license: ${license.toLowerCase()}\n`}---

# ${module}
${notice === undefined ? '' : `\n**${markdownText(notice)}**\n`}
${markdownText(manifest.title)}. Attention forward of contiguous ${dtype} tensors [B, H, S, D], for ${arch}; there is no backward.

- build: ${origin.buildId} (${exportName(kernel)})
- verdict: ${markdownText(verdictText(kernel))}
- flags: ${code(extensionFlags(kernel).join(' '))}
- limits: ${limits.join('; ') || 'none'}
`;
};

const kernelSource = (kernel: ExportedKernel): string => `${kernelUnit(kernel)}
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/all.h>

${torchOut(kernel)}`;

const BINDING_HEADER = `#pragma once

#include <torch/torch.h>

void mha_fwd_out(torch::Tensor o, torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal);
`;

const BINDING = `#include <torch/library.h>

#include "registration.h"
#include "torch_binding.h"

TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {
  ops.def("mha_fwd_out(Tensor! o, Tensor q, Tensor k, Tensor v, bool causal) -> ()");
  ops.impl("mha_fwd_out", torch::kCUDA, &mha_fwd_out);
}

REGISTER_EXTENSION(TORCH_EXTENSION_NAME)
`;

const initOf = (kernel: ExportedKernel): string => `from typing import Optional

import torch

from ._ops import ops
${warningAtImport(kernel)}

def mha_fwd(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, out: Optional[torch.Tensor] = None
) -> torch.Tensor:
    """softmax(q k^T / sqrt(D)) v of contiguous ${kernel.dtype} tensors [B, H, S, D], masked where causal."""
    if out is None:
        out = torch.empty_like(q)
    ops.mha_fwd_out(out, q, k, v, causal)
    return out


__all__ = ["mha_fwd"]
`;

const testOf = (module: string, dtype: TensorDtype): string => `import pytest
import torch
import torch.nn.functional as F

import ${module}


@pytest.mark.parametrize("causal", [False, True])
def test_mha_fwd(causal):
    q, k, v = (torch.randn(2, 8, 512, 64, dtype=torch.${DTYPES[dtype].torch}, device="cuda") for _ in range(3))
    expected = F.scaled_dot_product_attention(q.float(), k.float(), v.float(), is_causal=causal)
    torch.testing.assert_close(${module}.mha_fwd(q, k, v, causal).float(), expected, atol=${DTYPES[dtype].closeness}, rtol=${DTYPES[dtype].closeness})
`;

const benchmarkOf = (dtype: TensorDtype): string => `import torch
import torch.nn.functional as F
from kernels.benchmark import Benchmark


class MhaFwd(Benchmark):
    seed = 42

    def setup(self):
        self.q, self.k, self.v = (
            torch.randn(2, 8, 512, 64, dtype=torch.${DTYPES[dtype].torch}, device=self.device) for _ in range(3)
        )
        self.out = torch.empty_like(self.q)

    def benchmark_base(self):
        self.kernel.mha_fwd(self.q, self.k, self.v, False, self.out)

    def verify_base(self):
        return F.scaled_dot_product_attention(self.q, self.k, self.v)
`;
