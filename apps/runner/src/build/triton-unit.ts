import { FlashcoreError } from '@flashcore/shared/contract';
import { TRITON_SCRATCH_ARGUMENTS, type Manifest, type ResolvedVariant } from '@flashcore/shared/kernels';
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

/** Triton's types for the function's arguments, from the manifest's arguments. */
export function tritonTypes(manifest: Manifest, { dtype }: ResolvedVariant): string[] {
  const taken = manifest.launches[0]!.arguments.slice(0, -TRITON_SCRATCH_ARGUMENTS);
  return taken.map((argument) => {
    const { kind } = argument;
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

const SHARED = /^\/\/ flashcore: (\d{1,9}) bytes of dynamic shared memory$/m;

/** Bytes of dynamic shared memory that Triton's metadata requests, read from the PTX. */
export const sharedBytesIn = (ptx: string): number => Number(SHARED.exec(ptx.slice(0, 200))?.[1] ?? 0);
