import { FlashcoreError } from '@flashcore/shared/contract';
import {
  TRITON_SCRATCH_ARGUMENTS,
  type ExpressionNode,
  type Manifest,
  type ResolvedVariant,
} from '@flashcore/shared/kernels';
import type { CompileUnit } from './compile-unit.ts';
import type { Triton } from './compilers.ts';
import { headersPlace } from './header-trees.ts';
import type { BuildSpec } from './kernel-units.ts';
import type { SnapshotFile } from './source-snapshot.ts';

interface TritonOptions {
  triton: Triton;
  spec: BuildSpec;
  files: readonly SnapshotFile[];
  /** The text of tools/compile_triton.py. */
  script: string;
}

const LIMIT_MS = 120_000;
const SCRIPT = 'triton/compile_triton.py';

/** The unit with which Triton makes PTX from a kernel's Python. It is sandboxed, because the Python code runs there. */
export function tritonUnit({ triton, spec, files, script }: TritonOptions): CompileUnit {
  const { arch, resolved, source, kernelId } = spec;
  const trees = [
    { name: 'python', folder: triton.prefix, digest: triton.identity },
    { name: 'triton', folder: triton.sitePackages, digest: triton.identity },
  ];
  const request = {
    source: `kernel/${source}`,
    entry: spec.entries[0],
    values: { ...resolved.constants, ...resolved.parameters },
    types: spec.tritonTypes ?? [],
    capability: Number(/\d+/.exec(arch)?.[0]),
  };
  return {
    compiler: triton,
    target: arch,
    files: [...files, { path: SCRIPT, text: script }],
    headers: trees,
    stages: [[{ arguments: ['-I', SCRIPT, headersPlace('triton'), JSON.stringify(request)] }]],
    outputs: [{ path: 'kernel.ptx', fileName: `${kernelId}.${arch}.ptx`, kind: 'ptx' }],
    limitMs: LIMIT_MS,
  };
}

/** Triton's number types for the manifest's. */
const NUMBERS = { bool: 'i1', int32: 'i32', int64: 'i64', float32: 'fp32', float64: 'fp64' } as const;
const POINTERS = { fp16: '*fp16', bf16: '*bf16', fp32: '*fp32', int32: '*i32' } as const;

/** Triton's own launcher declares integers divisible by 16, so that their loads are as wide as they can be. */
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
    if (kind === 'workspace' || kind === 'null') return POINTERS.fp32;
    if (kind === 'tensor')
      return POINTERS[manifest.problem.tensors.find(({ name }) => name === argument.tensor)?.ownDtype ?? dtype];
    if (kind !== 'struct' && kind !== 'tensorMap') return NUMBERS[kind];
    throw new FlashcoreError(
      'INVALID_MANIFEST',
      { key: 'launches.0.arguments' },
      'arguments of a Triton kernel must be tensors, workspaces or numbers: leave structs and tensor maps out',
    );
  });
}

/** Names that an expression such as `K % 32 == 0 && N % 16 == 0` makes multiples of 16. */
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
