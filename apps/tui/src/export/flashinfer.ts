/**
 * `fa-tui export --flashinfer DIR`: a self-contained data set of FlashInfer-Bench. It has our own definitions
 * (FlashInfer-Bench has no definition for dense attention), workloads, this kernel as a solution, and a trace for each
 * measured workload.
 */
import { createHash } from 'node:crypto';
import type { Shape } from '@flashcore/shared/contract';
import { DTYPES, formatShape, valuesOf, type TensorDtype } from '@flashcore/shared/kernels';
import {
  exportName,
  unverifiedNotice,
  warningAtImport,
  type ExportedKernel,
  type MeasuredShape,
  exportShapes,
} from './exported-kernel.ts';
import { capability, extensionFlags, kernelUnit } from './kernel-unit.ts';

const OP_TYPE = 'mha_dense';
export const AUTHOR = 'flashcore';
/** The head dimension of definitions, whose axes are constant. */
const HEAD_DIM = 64;

export function flashInferFiles(kernel: ExportedKernel): Record<string, string> {
  const groups = Map.groupBy(exportShapes(kernel), (shape) => definitionName(shape, kernel.dtype));
  return Object.fromEntries([...groups].flatMap(([name, shapes]) => filesOf(kernel, name, shapes)));
}

const definitionName = ({ heads, causal }: Shape, dtype: TensorDtype): string =>
  `mha_fwd${dtype === 'fp16' ? '' : `_${dtype}`}${causal ? '_causal' : ''}_h${heads}_d${HEAD_DIM}`;

function filesOf(kernel: ExportedKernel, name: string, shapes: readonly Shape[]): [string, string][] {
  const [{ heads, causal }] = shapes as [Shape];
  const solution = solutionOf(kernel, name, causal);
  const traces = shapes.flatMap((shape) => {
    const measured = kernel.measured.find((each) => each.shape === formatShape(shape));
    return measured ? [traceOf({ name, shape, solution: solution.name, measured })] : [];
  });
  return [
    [`definitions/${OP_TYPE}/${name}.json`, json(definitionOf(name, { heads, causal, dtype: kernel.dtype }))],
    [`workloads/${OP_TYPE}/${name}.jsonl`, lines(shapes.map((shape) => workloadTrace(name, shape)))],
    [`solutions/${AUTHOR}/${OP_TYPE}/${name}/${solution.name}.json`, json(solution)],
    ...(traces.length === 0
      ? []
      : [[`traces/${AUTHOR}/${OP_TYPE}/${name}.jsonl`, lines(traces)] satisfies [string, string]]),
  ];
}

const tensorOf = (dtype: TensorDtype) => ({
  shape: ['batch_size', 'num_heads', 'seq_len', 'head_dim'],
  dtype: DTYPES[dtype].torch,
});

interface Defined {
  readonly heads: number;
  readonly causal: boolean;
  readonly dtype: TensorDtype;
}

const definitionOf = (name: string, { heads, causal, dtype }: Defined): unknown => ({
  name,
  op_type: OP_TYPE,
  description: `Dense attention forward${causal ? ', causal' : ''}: contiguous [B, H, S, D], scores times 1 / sqrt(D).`,
  axes: {
    batch_size: { type: 'var' },
    num_heads: { type: 'const', value: heads },
    seq_len: { type: 'var' },
    head_dim: { type: 'const', value: HEAD_DIM },
  },
  inputs: { q: tensorOf(dtype), k: tensorOf(dtype), v: tensorOf(dtype) },
  outputs: { output: tensorOf(dtype) },
  // Uses a single backend, so that the reference's latency belongs to a known program.
  reference: `import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


@torch.no_grad()
def run(q, k, v):
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, k, v, is_causal=${causal ? 'True' : 'False'})
`,
  tags: [`flashcore`, causal ? 'causal' : 'dense'],
  constraints: [],
});

function workloadOf(name: string, shape: Shape) {
  const { B, S } = valuesOf(shape);
  return {
    axes: { batch_size: B, seq_len: S },
    inputs: { q: { type: 'random' }, k: { type: 'random' }, v: { type: 'random' } },
    uuid: uuidOf(`${name} ${B} ${S}`),
  };
}

const workloadTrace = (definition: string, shape: Shape): unknown => ({
  definition,
  workload: workloadOf(definition, shape),
  solution: null,
  evaluation: null,
});

/** Gives the same workload the same id in every export: a version 5 UUID (RFC 9562), but computed with SHA-256. */
function uuidOf(text: string): string {
  const hex = createHash('sha256').update(`flashcore workload ${text}`).digest('hex');
  const variant = ((parseInt(hex[16]!, 16) & 0x3) | 0x8).toString(16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20, 32)}`;
}

interface Solution {
  readonly name: string;
}

const solutionOf = (
  kernel: ExportedKernel,
  definition: string,
  causal: boolean,
): Solution & Record<string, unknown> => ({
  // Unique in a data set, because it contains the definition.
  name: `${exportName(kernel)}_${definition}`,
  definition,
  author: AUTHOR,
  description: `${noticeBefore(kernel)}${kernel.manifest.title}. ${kernel.origin.label}, build ${kernel.origin.buildId}, ${kernel.origin.compiler}. CUDA, built by main.py for ${kernel.arch} with: ${extensionFlags(kernel).join(' ')}`,
  // A CUDA solution can specify neither flags nor architecture: FlashInfer-Bench would build it with -O2 for the GPU's
  // own target, sm_90 instead of sm_90a. A Python solution can specify both, and calls the same tvm_ffi.cpp.
  spec: {
    language: 'python',
    target_hardware: [kernel.arch],
    entry_point: 'main.py::mha_fwd',
    dependencies: ['tvm-ffi'],
    destination_passing_style: true,
  },
  sources: [
    { path: 'main.py', content: buildProgram(kernel) },
    { path: 'mha_fwd.cu', content: tvmSource(kernel, causal) },
  ],
});

/** A notice to put before a description if the last verdict on the kernel was bad; otherwise empty. */
export const noticeBefore = (kernel: ExportedKernel): string => {
  const notice = unverifiedNotice(kernel);
  return notice === undefined ? '' : `${notice}. `;
};

/** main.py of a solution. It builds the CUDA sources that FlashInfer-Bench puts into the same folder. */
const buildProgram = (kernel: ExportedKernel): string => `import os
from pathlib import Path

import tvm_ffi.cpp
${warningAtImport(kernel)}
ARCH_LIST = ${JSON.stringify(capability(kernel.arch))}
FLAGS = [
${extensionFlags(kernel)
  .filter((flag) => !flag.startsWith('-gencode'))
  .map((flag) => `    ${JSON.stringify(flag)},`)
  .join('\n')}
]


def _build():
    # tvm_ffi.cpp takes the architecture from this variable, and otherwise from the GPU, whose name has no "a".
    name = "TVM_FFI_CUDA_ARCH_LIST"
    before = os.environ.get(name)
    os.environ[name] = ARCH_LIST
    try:
        here = Path(__file__).resolve().parent
        return tvm_ffi.cpp.load(
            ${JSON.stringify(exportName(kernel))},
            cuda_files=[str(here / "mha_fwd.cu")],
            extra_cuda_cflags=FLAGS,
            build_directory=str(here / "build"),
        )
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


_module = _build()


def mha_fwd(q, k, v, output):
    _module.mha_fwd(q, k, v, output)
`;

/** The binding through which TVM-FFI calls the CUDA kernel; the output is the last argument. */
const tvmSource = (kernel: ExportedKernel, causal: boolean): string => `${kernelUnit(kernel)}
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

void mha_fwd(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView output) {
  const long long extent[4] = {q.size(0), q.size(1), q.size(2), q.size(3)};
  const FcPlan plan = fc_plan(extent[0], extent[1], extent[2], extent[3], ${causal});
  const DLDevice device = q.device();
  cudaStream_t stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  std::vector<void*> workspace;
  for (size_t bytes : plan.workspace) {
    void* allocated = nullptr;
    fc_check(cudaMallocAsync(&allocated, bytes > 0 ? bytes : 1, stream), "cudaMallocAsync");
    workspace.push_back(allocated);
  }
  void* tensors[4] = {q.data_ptr(), k.data_ptr(), v.data_ptr(), output.data_ptr()};
  fc_run(plan, extent, tensors, workspace.data(), stream);
  for (void* allocated : workspace) fc_check(cudaFreeAsync(allocated, stream), "cudaFreeAsync");
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(mha_fwd, mha_fwd);
`;

interface TraceInput {
  readonly name: string;
  readonly shape: Shape;
  readonly solution: string;
  readonly measured: MeasuredShape;
}

const traceOf = ({ name, shape, solution, measured }: TraceInput): unknown => ({
  definition: name,
  workload: workloadOf(name, shape),
  solution,
  evaluation: {
    status: 'PASSED',
    environment: { hardware: measured.device, libs: measured.libraries },
    timestamp: measured.time,
    log: `${measured.protocol}, hot p50; reference: sdpa/math in turns in the same job; ${measured.job}`,
    correctness: {
      max_relative_error: measured.maxRelativeError,
      max_absolute_error: measured.maxAbsoluteError,
    },
    performance: {
      latency_ms: measured.us / 1000,
      reference_latency_ms: measured.referenceUs / 1000,
      speedup_factor: measured.referenceUs / measured.us,
    },
  },
});

export const json = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
const lines = (values: readonly unknown[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join('');
