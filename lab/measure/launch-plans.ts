/**
 * Draws shapes and prints the launches that kernels make for them, as JSON for programs of lab/gpu_host/programs:
 * attention_rivals.py; backward_rivals.py for kernels of attention_backward; decode_rivals.py for kernels that decode,
 * and mla_rivals.py for those of mla_decode:
 *
 *   node --experimental-transform-types lab/measure/launch-plans.ts --seed 7 --shapes 80 kernels/flashcore_v12
 *
 * With --forms, draws windows, sinks and capped logits as in models. With --wide, draws head dimensions other than 64
 * and 128. With --decode, draws caches and 1 to 8 queries of each sequence; with --mla, caches of latent vectors. For
 * these, --queries 1 or 2,4,8, --widths 64,128 and --dtypes bf16 limit what is drawn. With --shape, uses the given
 * shapes in fp16 and bf16 and draws none. A kernel that does not support a shape has no plan.
 */
import { parseArgs } from 'node:util';
import {
  type LaunchPlan,
  type Manifest,
  type ResolvedVariant,
  checkShape,
  loadManifest,
  parseShape,
  planLaunches,
  resolveVariant,
} from '@flashcore/shared/kernels';

/** Number of SMs of an H100 or H200 SXM. */
const SMS = 132;
const MOST_BYTES = 3e9;
/**
 * H, Hkv and D of Llama-3 8B and 70B, Qwen3-30B, gpt-oss, Qwen2.5-14B, and of attention in which no heads share K and
 * V.
 */
const HEADS = [
  [32, 8, 128],
  [64, 8, 128],
  [32, 4, 128],
  [64, 8, 64],
  [40, 8, 128],
  [16, 16, 64],
  [16, 16, 128],
  [12, 12, 64],
] as const;

/** H, Hkv and D of Phi-3-mini, DeepSeek-V3 (whose values have 128 columns), Gemma 7B and Gemma 2 9B. */
const WIDE_HEADS = [
  [32, 32, 96],
  [128, 128, 192],
  [16, 16, 256],
  [16, 8, 256],
] as const;
const VALUES_OF_192 = 128;

/** H, Hkv, D and the other attributes of gpt-oss, Gemma 2 27B, Gemma 3 27B and Mistral 7B v0.1. */
const FORMS = [
  [64, 8, 64, 'window=127,sinks=1'],
  [64, 8, 64, 'sinks=1'],
  [32, 16, 128, 'window=4095,softcap=50'],
  [32, 16, 128, 'softcap=50'],
  [32, 16, 128, 'window=1023'],
  [32, 8, 128, 'window=4095'],
] as const;

/** H, Hkv and D of Llama-3 8B and 70B, Qwen3-30B, gpt-oss, Gemma 2 9B, Qwen2.5-14B, and of a model on eight GPUs. */
const DECODE_HEADS = [
  [32, 8, 128],
  [64, 8, 128],
  [32, 4, 128],
  [64, 8, 64],
  [16, 8, 256],
  [40, 8, 128],
  [16, 16, 128],
  [8, 1, 128],
] as const;
const MOST_CACHE_BYTES = 12e9;
/** Heads of DeepSeek-V3 on one, two, four and eight GPUs. */
const MLA_HEADS = [128, 64, 32, 16] as const;
const MLA_ROW_BYTES = 2 * 576;
/** Rows of a page, for kernels of a paged cache. */
const PAGE = 16;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seed: { type: 'string', default: '1' },
    shapes: { type: 'string', default: '60' },
    shape: { type: 'string', multiple: true, default: [] },
    forms: { type: 'boolean', default: false },
    wide: { type: 'boolean', default: false },
    decode: { type: 'boolean', default: false },
    mla: { type: 'boolean', default: false },
    queries: { type: 'string' },
    widths: { type: 'string', default: '64,128,256' },
    dtypes: { type: 'string', default: 'fp16,bf16' },
  },
});

/** Draws numbers in [0, 1) with a linear congruential generator (Numerical Recipes, section 7.1). */
function numbersFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

const random = numbersFrom(Number(values.seed));
const oneOf = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
const between = (low: number, high: number): number =>
  Math.round(2 ** (Math.log2(low) + random() * Math.log2(high / low)));

/** Draws a shape of self-attention with or without a mask, or of attention whose keys have a separate length. */
function draw(): { text: string; dtype: 'fp16' | 'bf16' } {
  for (;;) {
    const [H, Hkv, D] = oneOf<(typeof WIDE_HEADS | typeof HEADS)[number]>(values.wide ? WIDE_HEADS : HEADS);
    const S = between(16, 16384);
    const B = between(1, Math.max(1, Math.min(64, 131072 / S)));
    const form = oneOf(['', 'c', 'c', 'cross'] as const);
    const Skv = form === 'cross' ? between(16, 16384) : S;
    if (2 * B * D * (2 * H * S + 2 * Hkv * Skv) > MOST_BYTES || B * H * S * Skv > 64 * 2 ** 30) continue;
    const keys = (Hkv === H ? '' : `,Hkv=${Hkv}`) + (Skv === S ? '' : `,Skv=${Skv}`);
    const width = D === 192 ? `,Dv=${VALUES_OF_192}` : '';
    return { text: `${B}x${H}x${S}x${D}${form === 'c' ? 'c' : ''}${keys}${width}`, dtype: oneOf(['fp16', 'bf16']) };
  }
}

/** Draws causal self-attention of a prompt, with a window, sinks or capped logits. */
function drawForm(): { text: string; dtype: 'fp16' | 'bf16' } {
  const [H, Hkv, D, form] = oneOf(FORMS);
  const S = between(128, 16384);
  const B = between(1, Math.max(1, Math.min(16, 32768 / S)));
  return { text: `${B}x${H}x${S}x${D}c,Hkv=${Hkv},${form}`, dtype: oneOf(['fp16', 'bf16']) };
}

const DTYPES = values.dtypes.split(',') as ('fp16' | 'bf16')[];

/** Draws a number of queries: one of --queries if that was given. */
const drawQueries = (usual: readonly number[]): number => oneOf(values.queries?.split(',').map(Number) ?? usual);

const WIDTHS = values.widths.split(',').map(Number);

/** Draws the last queries of sequences that all fill their caches. */
function drawDecode(): { text: string; dtype: 'fp16' | 'bf16' } {
  for (;;) {
    const [H, Hkv, D] = oneOf(DECODE_HEADS);
    const [B, Skv] = [between(1, 512), between(8, 131072)];
    if (!WIDTHS.includes(D)) continue;
    if (2 * 2 * B * Skv * Hkv * D > MOST_CACHE_BYTES) continue;
    const S = drawQueries([1, 1, 1, 1, 2, 4, 8]);
    return { text: `B=${B},H=${H},Hkv=${Hkv},S=${S},Skv=${Skv},D=${D}`, dtype: oneOf(DTYPES) };
  }
}

/** Draws the last queries of sequences that all fill a cache of latent vectors, in pages of 64. */
function drawMla(): { text: string; dtype: 'fp16' | 'bf16' } {
  for (;;) {
    const [H, S] = [oneOf(MLA_HEADS), drawQueries([1, 1, 1, 2])];
    const [B, Skv] = [between(1, 512), between(8, 131072)];
    if (B * Skv * MLA_ROW_BYTES > MOST_CACHE_BYTES) continue;
    return { text: `B=${B},H=${H},S=${S},Skv=${Skv},page=64`, dtype: oneOf(DTYPES) };
  }
}

/** Resolves a kernel in a dtype for an H100 or H200. Undefined if the kernel does not support the dtype. */
function resolvedFor(manifest: Manifest, dtype: string): ResolvedVariant | undefined {
  if (dtype === 'bf16' && !Object.hasOwn(manifest.parameters, 'BF16')) return undefined;
  return resolveVariant(manifest, dtype === 'bf16' ? { parameters: { BF16: 1 } } : {}, { multiprocessors: SMS });
}

const kernels = await Promise.all(
  positionals.map(async (folder) => ({ folder, manifest: await loadManifest(folder) })),
);
const given = values.shape.flatMap((text) => [
  { text, dtype: 'fp16' as const },
  { text, dtype: 'bf16' as const },
]);
const drawForms = values.forms ? drawForm : draw;
const drawCache = values.mla ? drawMla : drawDecode;
const drawOne = values.decode || values.mla ? drawCache : drawForms;
const drawn = given.length > 0 ? given : Array.from({ length: Number(values.shapes) }, drawOne);
const shapes = drawn.map(({ text, dtype }) => {
  const plans = kernels.flatMap(({ folder, manifest }) => {
    const shape = parseShape(manifest.problem.id.endsWith('_paged') ? `${text},page=${PAGE}` : text);
    const resolved = resolvedFor(manifest, dtype);
    if (!resolved || checkShape(manifest, resolved, shape)) return [];
    return [[folder, planLaunches(manifest, resolved, shape)] as const];
  });
  const ofEach = <T>(part: (plan: LaunchPlan) => T) =>
    Object.fromEntries(plans.map(([folder, plan]) => [folder, part(plan)] as const));
  return {
    shape: text,
    dtype,
    plans: ofEach(({ launches }) => launches),
    workspaces: ofEach(({ workspace }) => workspace),
  };
});
const sources = kernels.map(
  ({ folder, manifest }) =>
    [
      folder,
      {
        source: manifest.source,
        defines: { fp16: resolvedFor(manifest, 'fp16')?.defines, bf16: resolvedFor(manifest, 'bf16')?.defines },
      },
    ] as const,
);
process.stdout.write(
  `${JSON.stringify({ seed: Number(values.seed), kernels: Object.fromEntries(sources), shapes })}\n`,
);
