import { tritonRequest } from '@flashcore/shared/kernels';
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

/**
 * The unit that Triton compiles from a kernel's Python to PTX. It runs only in a sandbox, because it runs the
 * kernel's Python.
 */
export function tritonUnit({ triton, spec, files, script }: TritonOptions): CompileUnit {
  const { arch, source, kernelId } = spec;
  const trees = [
    { name: 'python', folder: triton.prefix, digest: triton.identity },
    { name: 'triton', folder: triton.sitePackages, digest: triton.identity },
  ];
  const request = tritonRequest({ source: `kernel/${source}`, entries: spec.triton ?? [], arch });
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
