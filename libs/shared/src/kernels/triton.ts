/** Requests to tools/compile_triton.py and its answers, and the manifest of the PTX that it makes. */
import { Scalar, parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { FlashcoreError } from '../contract/errors.ts';
import { ELEMENTS } from '../data/dtype.ts';
import type { ExpressionNode } from '../data/expression.ts';
import { dtypeOfTensor } from '../problems/problem.ts';
import type { Manifest } from './manifest-model.ts';
import { tritonEntry } from './manifest-schema.ts';
import { TRITON_SCRATCH_ARGUMENTS } from './manifest.ts';
import type { ResolvedVariant } from './variant.ts';

/** A function that Triton compiles. */
export interface TritonUnit {
  /** As kernel.yaml writes it, for example `_attn_fwd[STAGE=3]`. */
  entry: string;
  /** The entry's name in the PTX. */
  symbol: string;
  function: string;
  /** Values of constexprs and options, by name. */
  values: Readonly<Record<string, number>>;
  /** Names of the constexprs that only this entry has; the function must have them. */
  own: readonly string[];
  /** Argument types, such as "*fp16". */
  types: readonly string[];
}

export interface TritonRequestOptions {
  /** Path of the Python file, relative to the folder in which the compiler runs. */
  source: string;
  entries: readonly TritonUnit[];
  /** For example "sm_90a". */
  arch: string;
}

export const tritonRequest = ({ source, entries, arch }: TritonRequestOptions) => ({
  source,
  entries,
  capability: Number(/\d+/.exec(arch)?.[0]),
});

/**
 * The functions of a kernel, once each, in the order of its launches. Errors: INVALID_MANIFEST for arguments that are
 * structs or tensor maps.
 */
export function tritonUnits(manifest: Manifest, resolved: ResolvedVariant): TritonUnit[] {
  const firsts = new Map(manifest.launches.toReversed().map((launch) => [launch.entry, launch]));
  return [...new Set(manifest.launches.map(({ entry }) => entry))].map((entry) => {
    const { function: name, symbol, values } = tritonEntry(entry)!;
    return {
      entry,
      symbol,
      function: name,
      values: { ...resolved.constants, ...resolved.parameters, ...values },
      own: Object.keys(values),
      types: tritonTypes(manifest, firsts.get(entry)!, resolved),
    };
  });
}

/** Triton's name for each number type of a manifest. */
const NUMBERS = {
  bool: 'i1',
  int8: 'i8',
  int16: 'i16',
  int32: 'i32',
  int64: 'i64',
  float32: 'fp32',
  float64: 'fp64',
} as const;

/** Triton's own launcher declares which integers are divisible by 16, so that loads are as wide as possible. */
const DIVISOR = 16;

/**
 * Triton's types for a function's arguments, from those of its launch. "i32:16" is an integer that the manifest's
 * limits make a multiple of 16.
 */
function tritonTypes(manifest: Manifest, launch: Manifest['launches'][number], { dtype }: ResolvedVariant): string[] {
  const taken = launch.arguments.slice(0, -TRITON_SCRATCH_ARGUMENTS);
  const multiples = new Set(manifest.limits.flatMap(({ require }) => multiplesIn(require.root)));
  return taken.map((argument) => {
    const { kind } = argument;
    if (kind === 'int32' || kind === 'int64')
      return `${NUMBERS[kind]}${multiples.has(argument.value.text) ? `:${DIVISOR}` : ''}`;
    if (kind === 'workspace' || kind === 'null') return ELEMENTS.fp32.triton;
    if (kind === 'tensor') {
      const tensor = manifest.problem.tensors.find(({ name }) => name === argument.tensor);
      return ELEMENTS[tensor ? dtypeOfTensor(tensor, dtype) : dtype].triton;
    }
    if (kind !== 'struct' && kind !== 'tensorMap') return NUMBERS[kind];
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { key: `launches.${manifest.launches.indexOf(launch)}.arguments` },
      'arguments of a Triton kernel must be tensors, workspaces or numbers: leave structs and tensor maps out',
    );
  });
}

/** Names that must be multiples of 16 according to an expression such as `K % 32 == 0 && N % 16 == 0`. */
function multiplesIn(node: ExpressionNode): string[] {
  if (node.kind !== 'binary') return [];
  const { operator, left, right } = node;
  if (operator === '&&') return [...multiplesIn(left), ...multiplesIn(right)];
  const isMultiple =
    operator === '==' &&
    right.kind === 'number' &&
    right.value === 0 &&
    left.kind === 'binary' &&
    left.operator === '%';
  if (!isMultiple || left.left.kind !== 'name' || left.right.kind !== 'number') return [];
  return left.right.value % DIVISOR === 0 ? [left.left.name] : [];
}

/** The memory that Triton's metadata requests for an entry. */
export interface TritonMemory {
  /** Dynamic shared memory. */
  sharedBytes: number;
  /** Scratch memory of each CTA. */
  scratchBytes: number;
}

const MEMORY =
  /^\/\/ flashcore: (?:(\w{1,2000}): )?(\d{1,9}) bytes of (dynamic shared memory|scratch memory for each CTA)$/;

/** Reads the memory of an entry from the first lines of the PTX. If the PTX has one entry, they do not name it. */
export function tritonMemory(ptx: string, symbol: string): TritonMemory {
  const memory = { sharedBytes: 0, scratchBytes: 0 };
  for (let from = 0, to = ptx.indexOf('\n'); to >= 0; from = to + 1, to = ptx.indexOf('\n', from)) {
    const [, name, bytes, kind] = MEMORY.exec(ptx.slice(from, to)) ?? [];
    if (kind === undefined) break;
    if (name === undefined || name === symbol)
      memory[kind.startsWith('dynamic') ? 'sharedBytes' : 'scratchBytes'] = Number(bytes);
  }
  return memory;
}

/** The architecture for which Triton made the PTX, such as "sm_90a" for capability 90; undefined if it has none. */
export const targetIn = (ptx: string): string | undefined => /^\.target[ \t]{1,20}(sm_\d{2,3}[af]?)/m.exec(ptx)?.[1];

export interface CompiledTriton {
  /** The new kernel's id. */
  id: string;
  /** Name of the PTX file in the new folder. */
  source: string;
  ptx: string;
  resolved: Pick<ResolvedVariant, 'parameters'>;
}

/**
 * The kernel.yaml for a Triton kernel's PTX, made from the Triton kernel's own valid one: parameters become constants,
 * and launches follow Triton's metadata. Everything else stays as written, comments included.
 */
export function manifestOfCompiled(text: string, { id, source, ptx, resolved }: CompiledTriton): string {
  const document = parseDocument(text);
  const target = targetIn(ptx) ?? 'sm_80';
  document.set('id', id);
  document.set('source', source);
  for (const key of ['language', 'parameters', 'configs', 'min_arch', 'arch']) document.delete(key);
  document.set(/[af]$/.test(target) ? 'arch' : 'min_arch', target);
  for (const [name, value] of Object.entries(resolved.parameters)) document.setIn(['constants', name], value);
  const launches = document.get('launches') as YAMLSeq<YAMLMap>;
  for (const [index, launch] of launches.items.entries()) {
    // The launches of an `each` list share their sizes.
    const each = launch.get('each') as YAMLSeq<YAMLMap> | undefined;
    const memory = (each?.items ?? [launch]).map((item) => {
      const { symbol } = tritonEntry(String(item.get('entry')))!;
      item.set('entry', symbol);
      return tritonMemory(ptx, symbol);
    });
    const bytes = Math.max(...memory.map(({ sharedBytes }) => sharedBytes));
    const scratch = Math.max(...memory.map(({ scratchBytes }) => scratchBytes));
    const own = launch.get('shared_bytes') as string | number | undefined;
    if (bytes > 0) launch.set('shared_bytes', own === undefined ? bytes : `max(${own}, ${bytes})`);
    const taken = launch.get('arguments') as YAMLSeq;
    const { grid } = launch.toJSON() as { grid: (string | number)[] };
    const name = `triton_scratch_${index}`;
    if (scratch > 0) document.setIn(['workspace', name], [scratch, ...grid.map((each) => `(${each})`)].join(' * '));
    taken.add(new Scalar(scratch > 0 ? name : null));
    for (let added = 1; added < TRITON_SCRATCH_ARGUMENTS; added += 1) taken.add(new Scalar(null));
  }
  return document.toString({ lineWidth: 120 });
}
