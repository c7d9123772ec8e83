/** Compiles a user's kernel with the Triton of this machine, for runners that have no Triton. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { withoutSecrets } from '@flashcore/shared/files';
import { installedFile, tritonRequest, type TritonFunction } from '@flashcore/shared/kernels';

interface TritonCompileOptions {
  readonly folder: string;
  /** The Python file in the folder. */
  readonly source: string;
  readonly request: Omit<Parameters<typeof tritonRequest>[0], 'source'>;
  readonly environment: NodeJS.ProcessEnv;
}

interface TritonOutput {
  /** For example "3.6.0". */
  readonly version: string;
  /** undefined if Triton refuses the kernel. */
  readonly ptx: string | undefined;
  /** The output of Triton and of the kernel's Python code, with the error's place if there is one. */
  readonly lines: readonly string[];
}

const ASK_LIMIT_MS = 60_000;
const LIMIT_MS = 300_000;
const MAX_READ_BYTES = 16 * 2 ** 20;
const WHICH_TRITON = 'import triton; print(triton.__version__, *triton.__path__, sep="\\n")';

/**
 * A function in a Python file with Triton kernels, read without running it, so Triton is not needed. Errors:
 * INVALID_REQUEST if the file has no such function, COMPILER_MISSING without Python.
 */
export function readTriton(file: string, entry: string, environment: NodeJS.ProcessEnv): TritonFunction {
  const python = environment['FLASHCORE_PYTHON'] || 'python3';
  const args = ['-I', installedFile('tools/read_triton.py'), path.resolve(file), entry];
  const { stdout, stderr, status, error } = spawnSync(python, args, {
    encoding: 'utf8',
    env: withoutSecrets(environment),
    timeout: ASK_LIMIT_MS,
    maxBuffer: MAX_READ_BYTES,
  });
  if (error && 'code' in error && error.code === 'ENOENT')
    throw new FlashcoreError(
      'COMPILER_MISSING',
      { wanted: 'python3' },
      `${python} was not found: install Python 3, or name it in FLASHCORE_PYTHON`,
    );
  if (status !== 0) {
    const said = stderr
      .trim()
      .split('\n')
      .at(-1)!
      .replace(/^error: /, '');
    throw new FlashcoreError('INVALID_REQUEST', { path: file }, said || `${file}: could not be read as Python`);
  }
  return JSON.parse(stdout) as TritonFunction;
}

/**
 * Runs the kernel's Python code with the user's rights. Errors: COMPILER_MISSING if this machine's Python has no
 * Triton.
 */
export function compileTriton({ folder, source, request, environment }: TritonCompileOptions): TritonOutput {
  const python = environment['FLASHCORE_PYTHON'] || 'python3';
  const env = withoutSecrets(environment);
  const found = spawnSync(python, ['-I', '-c', WHICH_TRITON], { encoding: 'utf8', env, timeout: ASK_LIMIT_MS });
  const [version = '', place = ''] = found.stdout?.trim().split('\n') ?? [];
  if (found.status !== 0 || place === '')
    throw new FlashcoreError(
      'COMPILER_MISSING',
      { wanted: 'triton' },
      `${python} has no Triton: run ${python} -m pip install triton==3.6.0, or name another Python in FLASHCORE_PYTHON; no GPU is needed`,
    );
  const work = mkdtempSync(path.join(tmpdir(), 'flashcore-compile-'));
  try {
    const unit = path.join('kernel', path.basename(source));
    cpSync(path.join(folder, source), path.join(work, unit));
    const asked = { ...tritonRequest({ ...request, source: unit }), place: path.join(work, 'place') };
    const args = ['-I', installedFile('tools/compile_triton.py'), path.dirname(place), JSON.stringify(asked)];
    const { stdout, stderr, status } = spawnSync(python, args, { cwd: work, encoding: 'utf8', env, timeout: LIMIT_MS });
    const made = path.join(work, 'kernel.ptx');
    const lines = `${stdout}${stderr}`
      .replaceAll('kernel/', '')
      .split('\n')
      .filter((line) => line !== '');
    if (status === null) lines.push(`killed after ${LIMIT_MS / 1000} s`);
    return { version, lines, ptx: status === 0 && existsSync(made) ? readFileSync(made, 'utf8') : undefined };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
