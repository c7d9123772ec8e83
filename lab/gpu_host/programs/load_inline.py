"""Builds the kernel of a .cu file as a PyTorch extension, with a binding that launches the kernel."""

import json
import pathlib
import sys
import tempfile
import time

started = time.monotonic()
import torch
from torch.utils.cpp_extension import load_inline

imported = time.monotonic()
macros = [each.removeprefix("-D").split("=") for each in sys.argv[2:]]
defined = "".join(f"#define {name} {value}\n" for name, value in macros)
undefined = "".join(f"#undef {name}\n" for name, _ in macros)  # PyTorch's headers may use such names
source = (
    defined
    + pathlib.Path(sys.argv[1]).read_text()
    + undefined
    + """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  auto o = torch::empty_like(q);
  const int B = q.size(0), H = q.size(1), S = q.size(2), bytes = 73728;
  cudaFuncSetAttribute(flashcore_v6, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  flashcore_v6<<<dim3((S + 63) / 64, B * H), 128, bytes, at::cuda::getCurrentCUDAStream()>>>((const half*)q.data_ptr(), (const half*)k.data_ptr(), (const half*)v.data_ptr(), (half*)o.data_ptr(), S, 0.125f, causal ? 1 : 0);
  return o;
}
"""
)
module = load_inline(
    "flashcore_v6_extension",
    cpp_sources="torch::Tensor forward(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal);",
    cuda_sources=source,
    functions=["forward"],
    extra_cuda_cflags=["-O3", "--use_fast_math", "-std=c++17"],
    build_directory=tempfile.mkdtemp(),
)
built = time.monotonic()
q, k, v = (torch.randn(2, 8, 512, 64, device="cuda", dtype=torch.float16) for _ in range(3))
error = (
    (module.forward(q, k, v, False).float() - torch.nn.functional.scaled_dot_product_attention(q, k, v).float())
    .abs()
    .max()
    .item()
)
print(
    json.dumps(
        {
            "import_seconds": imported - started,
            "build_seconds": built - imported,
            "max_abs_error_against_sdpa": error,
            "torch": torch.__version__,
        }
    )
)
