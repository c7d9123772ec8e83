/** Requests to tools/compile_triton.py and its answers, and the manifest of the PTX that it makes. */
import { Scalar, parseDocument, type YAMLMap, type YAMLSeq } from 'yaml';
import { FlashcoreError } from '../contract/errors.ts';
import { ELEMENTS } from '../data/dtype.ts';
import type { ExpressionNode } from '../data/expression.ts';
import { dtypeOfTensor } from '../problems/problem.ts';
import type { Manifest } from './manifest-model.ts';
import { TRITON_SCRATCH_ARGUMENTS } from './manifest.ts';
import type { ResolvedVariant } from './variant.ts';

export interface TritonRequestOptions {
  /** Path of the Python file, relative to the folder in which the compiler runs. */
  source: string;
  entry: string;
  types: readonly string[];
  resolved: Pick<ResolvedVariant, 'constants' | 'parameters'>;
  /** For example "sm_90a". */
  arch: string;
}

export const tritonRequest = ({ source, entry, types, resolved, arch }: TritonRequestOptions) => ({
  source,
  entry,
  values: { ...resolved.constants, ...resolved.parameters },
  types,
  capability: Number(/\d+/.exec(arch)?.[0]),
});

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
 * Triton's types for the function's arguments, from the manifest's. "i32:16" is an integer that the manifest's limits
 * make a multiple of 16.
 */
export function tritonTypes(manifest: Manifest, { dtype }: ResolvedVariant): string[] {
  const taken = manifest.launches[0]!.arguments.slice(0, -TRITON_SCRATCH_ARGUMENTS);
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
      { key: 'launches.0.arguments' },
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

const SHARED = /^\/\/ flashcore: (\d{1,9}) bytes of dynamic shared memory$/m;

/** Bytes of dynamic shared memory that Triton's metadata requests, read from the PTX. */
export const sharedBytesIn = (ptx: string): number => Number(SHARED.exec(ptx.slice(0, 200))?.[1] ?? 0);

const SCRATCH = /^\/\/ flashcore: (\d{1,6}) bytes of scratch memory for each CTA$/m;

/** Bytes of scratch memory that Triton's metadata requests for each CTA, read from the PTX. */
export const scratchBytesIn = (ptx: string): number => Number(SCRATCH.exec(ptx.slice(0, 200))?.[1] ?? 0);

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
  const bytes = sharedBytesIn(ptx);
  const scratch = scratchBytesIn(ptx);
  const launches = document.get('launches') as YAMLSeq<YAMLMap>;
  for (const [index, launch] of launches.items.entries()) {
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
