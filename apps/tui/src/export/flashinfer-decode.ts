/**
 * `fa-tui export --flashinfer DIR` of a kernel of paged decoding: a solution for each definition of that operation in
 * FlashInfer-Bench's data set that the kernel takes. FlashInfer's trace_apply loads the same files.
 */
import { checkShape, DTYPES, parseShape } from '@flashcore/shared/kernels';
import { NothingToExport } from './collect.ts';
import { exportName, type ExportedKernel } from './exported-kernel.ts';
import { AUTHOR, json, noticeBefore } from './flashinfer.ts';
import { torchFile } from './torch-file.ts';

const OP_TYPE = 'gqa_paged';
const HEAD_DIM = 128;
/** The definitions' constants (flashinfer-ai/flashinfer-bench ecafa9c2): heads, heads of keys, and sizes of pages. */
const CONSTANTS: readonly (readonly [heads: number, keyHeads: number, pages: readonly number[]])[] = [
  [5, 1, [1]],
  [6, 1, [1, 64]],
  [16, 2, [1, 64]],
  [20, 4, [1, 64]],
  [24, 4, [64]],
  [24, 8, [1, 64]],
  [32, 4, [1, 64]],
  [32, 8, [1, 64]],
  [32, 16, [1, 64]],
  [48, 8, [1]],
];

interface Constants {
  readonly heads: number;
  readonly keyHeads: number;
  readonly page: number;
}

/** Errors: NothingToExport if the definitions' dtype, outputs or extents are not the kernel's. */
export function pagedDecodeFiles(kernel: ExportedKernel): Record<string, string> {
  const { manifest, dtype } = kernel;
  if (dtype !== 'bf16')
    throw new NothingToExport(
      `--flashinfer: ${manifest.id} takes ${dtype}, and FlashInfer-Bench's definitions of paged decoding are bf16: choose such a variant, for example with --set BF16=1`,
    );
  const writes = manifest.launches.some((launch) =>
    launch.arguments.some((each) => 'tensor' in each && each.tensor === 'LSE'),
  );
  if (!writes)
    throw new NothingToExport(
      `--flashinfer: ${manifest.id} does not write LSE, which is an output of FlashInfer-Bench's definitions`,
    );
  const taken = CONSTANTS.flatMap(([heads, keyHeads, pages]) =>
    pages.map((page): Constants => ({ heads, keyHeads, page })),
  ).filter((constants) => takes(kernel, constants));
  if (taken.length === 0)
    throw new NothingToExport(
      `--flashinfer: ${manifest.id} takes none of the extents of FlashInfer-Bench's definitions of paged decoding (D=${HEAD_DIM})`,
    );
  const module = torchFile(kernel);
  return Object.fromEntries(taken.flatMap((constants) => filesOf(kernel, module, constants)));
}

/** Whether the kernel takes some batch with these constants. */
const takes = ({ manifest, parameters }: ExportedKernel, { heads, keyHeads, page }: Constants): boolean =>
  checkShape(
    manifest,
    { parameters },
    parseShape(`B=8,H=${heads},Hkv=${keyHeads},S=1,Skv=4096,page=${page},D=${HEAD_DIM}`),
  ) === undefined;

function filesOf(kernel: ExportedKernel, module: string, constants: Constants): [string, string][] {
  const { heads, keyHeads, page } = constants;
  const definition = `gqa_paged_decode_h${heads}_kv${keyHeads}_d${HEAD_DIM}_ps${page}`;
  const name = `${exportName(kernel)}_${definition}`;
  return [
    [`definitions/${OP_TYPE}/${definition}.json`, json(definitionOf(definition, constants))],
    [
      `solutions/${AUTHOR}/${OP_TYPE}/${definition}/${name}.json`,
      json(solutionOf(kernel, { name, definition, module, page })),
    ],
  ];
}

/** A definition with the name, inputs and outputs of FlashInfer-Bench's own: the folder can be read by itself. */
function definitionOf(name: string, { heads, keyHeads, page }: Constants): unknown {
  const fixed = (value: number) => ({ type: 'const', value });
  const varies = { type: 'var' };
  const bf16 = (...shape: string[]) => ({ shape, dtype: DTYPES.bf16.torch });
  const int32 = (...shape: string[]) => ({ shape, dtype: 'int32' });
  const cache = bf16('num_pages', 'page_size', 'num_kv_heads', 'head_dim');
  return {
    name,
    op_type: OP_TYPE,
    description: 'One query per sequence over a paged cache, as in the definition of this name in FlashInfer-Bench.',
    axes: {
      batch_size: varies,
      num_qo_heads: fixed(heads),
      num_kv_heads: fixed(keyHeads),
      head_dim: fixed(HEAD_DIM),
      num_pages: varies,
      page_size: fixed(page),
      len_indptr: varies,
      num_kv_indices: varies,
    },
    constraints: ['len_indptr == batch_size + 1', 'num_kv_indices == kv_indptr[-1].item()'],
    inputs: {
      q: bf16('batch_size', 'num_qo_heads', 'head_dim'),
      k_cache: cache,
      v_cache: cache,
      kv_indptr: int32('len_indptr'),
      kv_indices: int32('num_kv_indices'),
      ...(page > 1 && { kv_last_page_len: int32('batch_size') }),
      sm_scale: { shape: null, dtype: 'float32' },
    },
    outputs: {
      output: bf16('batch_size', 'num_qo_heads', 'head_dim'),
      lse: { shape: ['batch_size', 'num_qo_heads'], dtype: 'float32' },
    },
    reference: referenceOf(page),
  };
}

const lastPages = (page: number): string => (page > 1 ? 'kv_last_page_len, ' : '');

const referenceOf = (page: number): string => `import math

import torch


@torch.no_grad()
def run(q, k_cache, v_cache, kv_indptr, kv_indices, ${lastPages(page)}sm_scale):
    output = torch.zeros_like(q)
    lse = torch.full(q.shape[:2], -math.inf, dtype=torch.float32, device=q.device)
    shared = q.shape[1] // k_cache.shape[2]
    for row in range(q.shape[0]):
        pages = kv_indices[int(kv_indptr[row]) : int(kv_indptr[row + 1])].long()
        if len(pages) == 0:
            continue
        keys = ${page > 1 ? '(len(pages) - 1) * k_cache.shape[1] + int(kv_last_page_len[row])' : 'len(pages)'}
        k, v = (each[pages].flatten(0, 1)[:keys].float().repeat_interleave(shared, 1) for each in (k_cache, v_cache))
        logits = torch.einsum("hd,khd->hk", q[row].float(), k) * sm_scale
        lse[row] = torch.logsumexp(logits, 1) / math.log(2.0)
        output[row] = torch.einsum("hk,khd->hd", torch.softmax(logits, 1), v).to(q.dtype)
    return output, lse
`;

interface Solved {
  readonly name: string;
  readonly definition: string;
  /** The kernel's PyTorch file. */
  readonly module: string;
  readonly page: number;
}

const solutionOf = (kernel: ExportedKernel, { name, definition, module, page }: Solved): unknown => ({
  name,
  definition,
  author: AUTHOR,
  description: `${noticeBefore(kernel)}${kernel.manifest.title}. ${kernel.origin.label}, build ${kernel.origin.buildId}, ${kernel.origin.compiler}. Machine code for ${kernel.arch}, launched from Python.`,
  spec: {
    language: 'python',
    target_hardware: [kernel.arch],
    entry_point: 'main.py::run',
    dependencies: ['torch'],
    destination_passing_style: false,
  },
  sources: [{ path: 'main.py', content: `${module}\n\n${runOf(definition, page)}` }],
});

/**
 * FlashInfer-Bench passes the definition's inputs by position and wants both outputs; trace_apply passes names and
 * `return_lse`, but not how far the last pages are filled.
 */
const runOf = (definition: string, page: number): string => `def run(
    q,
    k_cache,
    v_cache,
    kv_indptr,
    kv_indices,
${page > 1 ? '    kv_last_page_len=None,\n' : ''}    sm_scale=None,
    return_lse=None,
):
    """${definition}. Makes the page table, so it waits for the device and cannot be captured in a graph."""
${
  page > 1
    ? `    if kv_last_page_len is None:
        raise NotImplementedError(f"{KERNEL}: kv_last_page_len is missing, and last pages are rarely full: pass it, or use pages of one row")
`
    : '    kv_last_page_len = torch.ones_like(kv_indptr[1:])\n'
}    wrapper = BatchDecodeWithPagedKVCacheWrapper()
    scale = None if sm_scale is None else float(sm_scale)
    heads, key_heads, width = q.shape[1], k_cache.shape[2], q.shape[2]
    wrapper.plan(
        kv_indptr, kv_indices, kv_last_page_len, heads, key_heads, width, k_cache.shape[1], sm_scale=scale
    )
    return wrapper.run(q, (k_cache, v_cache), return_lse=return_lse is None or bool(return_lse))
`;
