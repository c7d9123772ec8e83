import { DTYPES } from '@flashcore/shared/kernels';
/** A kernel, its plan and its launches as one CUDA translation unit. Each format adds its own binding. */
import path from 'node:path';
import { cppPlan, entriesOf } from './cpp-plan.ts';
import { cppRuntime, type LaunchQueue } from './cpp-runtime.ts';
import { type ExportedKernel, type SourceText, exportName } from './exported-kernel.ts';

/**
 * nvcc's flags, and flags that undo two choices of cpp_extension: it disables the operators of half, and it adds a
 * -gencode unless one is given.
 */
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

/** Python that compiles a unit with its mha_fwd at import, as `extension`. */
export const inlineExtension = (kernel: ExportedKernel, source: string): string => `CUDA = r'''
${rawText(source)}'''

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
`;

/**
 * Text for the inside of r'''…'''. Three quotes in the source would end the string, and Python would interpret the
 * rest.
 */
const rawText = (text: string): string => text.replaceAll("'''", `''' "'''" r'''`);

/** An architecture in the form of PyTorch, TVM-FFI and kernel-builder: "sm_90a" becomes "9.0a". */
export const capability = (arch: string): string => arch.replace(/^sm_(\d+)(\d)([af]?)$/, '$1.$2$3');

interface UnitOptions {
  /** Returns the source to export for a source of the kernel. */
  readonly rewrite?: (source: string) => string;
  readonly queue?: LaunchQueue;
}

const asItIs = (source: string): string => source;

/**
 * The unit up to fc_plan and fc_run. The kernel's macros are defined only around its source, because other headers use
 * the same names.
 */
export function kernelUnit(kernel: ExportedKernel, { rewrite = asItIs, queue = 'given' }: UnitOptions = {}): string {
  const { manifest, parameters, flags, sources } = kernel;
  const macros = flags.filter((flag) => flag.startsWith('-D')).map((flag) => flag.slice(2).split('='));
  const names = DTYPES[kernel.dtype];
  return `${
    names.header === undefined
      ? ''
      : `#include <${names.header}>
`
  }#include <cuda_runtime.h>
${macros.map(([name, value]) => `#define ${name} ${value ?? 1}`).join('\n')}
${rewrite(inlineSources(sources))}
${macros.map(([name]) => `#undef ${name}`).join('\n')}
${cppPlan(manifest, parameters)}
static const void* const FC_ENTRIES[] = {${entriesOf(manifest)
    .map((entry) => `(const void*)&${entry}`)
    .join(', ')}};
${cppRuntime(names, queue)}`;
}

/** `mha_fwd_out` writes into the caller's tensor, `mha_fwd` into a new one. Needs PyTorch's headers before it. */
export const torchBinding = (
  kernel: ExportedKernel,
  queue: LaunchQueue = 'given',
): string => `${torchOut(kernel, queue)}
torch::Tensor mha_fwd(torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  torch::Tensor o = torch::empty_like(q);
  mha_fwd_out(o, q, k, v, causal);
  return o;
}
`;

export const torchOut = (
  { manifest: { id }, dtype }: ExportedKernel,
  queue: LaunchQueue = 'given',
): string => `void mha_fwd_out(torch::Tensor o, torch::Tensor q, torch::Tensor k, torch::Tensor v, bool causal) {
  for (const torch::Tensor& each : {q, k, v, o}) {
    TORCH_CHECK(each.is_cuda() && each.scalar_type() == at::${DTYPES[dtype].aten} && each.dim() == 4 && each.is_contiguous(),
                "${id}: q, k, v and o must be contiguous ${dtype} tensors [B, H, S, D] on a CUDA device");
    TORCH_CHECK(each.sizes() == q.sizes() && each.device() == q.device(),
                "${id}: q, k, v and o must have one shape and one device");
  }
  const c10::cuda::CUDAGuard guard(q.device());
  const long long extent[4] = {q.size(0), q.size(1), q.size(2), q.size(3)};
  const FcPlan plan = fc_plan(extent[0], extent[1], extent[2], extent[3], causal);
  std::vector<torch::Tensor> held;
  std::vector<void*> workspace;
  for (size_t bytes : plan.workspace) {
    held.push_back(torch::empty({(long long)(bytes > 0 ? bytes : 1)}, q.options().dtype(at::kByte)));
    workspace.push_back(held.back().data_ptr());
  }
  void* tensors[4] = {q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr()};
  fc_run(plan, extent, tensors, workspace.data()${queue === 'given' ? ', at::cuda::getCurrentCUDAStream()' : ''});
}
`;

const macroOf = (flag: string): string => flag.slice(2).split('=')[0]!;

const INCLUDE = /^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[^\n]*$/gm;
const PRAGMA_ONCE = /^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*\n?/gm;

/**
 * Joins a kernel's sources into one text: every header replaces its first include. `sources` begins with the
 * translation unit. Includes of other files (CUDA's headers) stay unchanged.
 */
export function inlineSources(sources: readonly SourceText[]): string {
  const byPath = new Map(sources.map((source) => [source.path, source]));
  const written = new Set<string>();
  const inline = ({ path: file, text }: SourceText): string => {
    written.add(file);
    return text.replace(PRAGMA_ONCE, '').replaceAll(INCLUDE, (line, quoted?: string, angled?: string) => {
      const named = quoted ?? angled!;
      const found = [path.posix.join(path.posix.dirname(file), named), named].find((each) => byPath.has(each));
      if (found === undefined) return line;
      return written.has(found) ? `// ${found}: above` : `// ${found}\n${inline(byPath.get(found)!)}`;
    });
  };
  return inline(sources[0]!);
}

/**
 * Removes comments, because KernelBench's checker reads text rather than C++ and would mistake words in them for
 * tricks. Line breaks are kept, so that a compiler's message still points to the correct line.
 */
export function withoutComments(source: string): string {
  const TOKEN = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|\/\/[^\n]*|\/\*[^]*?\*\//g;
  return source
    .replaceAll(TOKEN, (token) => (token.startsWith('/') ? token.replaceAll(/[^\n]/g, '') : token))
    .replaceAll(/[ \t]+$/gm, '');
}

/** Renames an identifier where it is a whole token outside of strings. */
export function renameToken(source: string, from: string, to: string): string {
  return source.replaceAll(new RegExp(`"(?:[^"\\\\\\n]|\\\\.)*"|\\b${from}\\b`, 'g'), (token) =>
    token === from ? to : token,
  );
}
