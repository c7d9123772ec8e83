import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { cpus } from 'node:os';
import { delimiter, join } from 'node:path';

/** A compiler found on this host. */
export interface Compiler {
  name: 'nvcc' | 'g++' | 'clang++';
  path: string;
  /** For example "13.0.88" or "12.2.0". */
  version: string;
  /** What `-march=native` means here, and the like: part of every digest. */
  identity: string;
}

export interface Nvcc extends Compiler {
  /** Architectures that it makes code for: "sm_80" … */
  archs: string[];
}

export interface FoundTool {
  name: string;
  version: string;
  archs: string[];
  /** Empty when it was found. */
  missing: string;
}

const PROBE_LIMIT_MS = 10_000;

/** Compilers and tools of the host. Looked for at each call; asked for their version once for each file. */
export class Toolchain {
  readonly #asked = new Map<string, string>();

  nvcc(): Nvcc | undefined {
    const path = this.#find('nvcc');
    if (!path) return undefined;
    const text = this.#ask(path, ['--version']);
    const version = /V(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? '';
    const codes = this.#ask(path, ['--list-gpu-code']).split(/\s+/).filter((code) => /^sm_\d+$/.test(code));
    return { name: 'nvcc', path, version, identity: `nvcc ${version}`, archs: withFeatureArchs(codes) };
  }

  /** The C++ compiler for the emulator: g++, or clang++ where there is no g++. */
  cxx(): Compiler | undefined {
    for (const name of ['g++', 'clang++'] as const) {
      const path = this.#find(name);
      if (!path) continue;
      const text = this.#ask(path, ['--version']);
      const version = /(\d+\.\d+\.\d+)/.exec(text)?.[1] ?? '';
      // On macOS g++ is clang.
      const real = /clang/i.test(text) ? 'clang++' : name;
      return { name: real, path, version, identity: `${text.split('\n')[0]} ${hostProcessor()}` };
    }
    return undefined;
  }

  /** Path of a tool; undefined where there is none. */
  path(name: 'ncu' | 'compute-sanitizer'): string | undefined {
    return this.#find(name);
  }

  describe(): FoundTool[] {
    const nvcc = this.nvcc();
    const cxx = this.cxx();
    return [
      nvcc
        ? { name: 'nvcc', version: nvcc.version, archs: nvcc.archs, missing: '' }
        : missing('nvcc', 'no machine code for a GPU, no registers, spills and occupancy: install the CUDA toolkit and put its bin folder on PATH or set CUDA_HOME'),
      cxx
        ? { name: cxx.name, version: cxx.version, archs: ['emulator'], missing: '' }
        : missing('g++', 'the emulator and the CPU reference can\'t be compiled: install g++ 12 or clang++ 15 or later'),
      this.#optional('ncu', ['--version'], /Version (\S+)/, 'no hardware counters: install Nsight Compute, which the CUDA toolkit has, and put it on PATH'),
      this.#optional('compute-sanitizer', ['--version'], /Version (\S+)/, 'no memcheck and racecheck on a GPU: it comes with the CUDA toolkit'),
      this.#optional('cuobjdump', ['--version'], /V(\S+)/, 'no SASS listings: it comes with the CUDA toolkit'),
      this.#optional('bwrap', ['--version'], /(\S+)$/, 'compilers and workers run unboxed: install bubblewrap'),
    ];
  }

  #optional(name: string, args: string[], pattern: RegExp, without: string): FoundTool {
    const path = this.#find(name);
    return path ? { name, version: pattern.exec(this.#ask(path, args).trim())?.[1] ?? 'unknown', archs: [], missing: '' } : missing(name, without);
  }

  #find(name: string): string | undefined {
    const cuda = [process.env['CUDA_HOME'], process.env['CUDA_PATH']].flatMap((root) => (root ? [join(root, 'bin')] : []));
    const folders = [...(name.endsWith('++') ? [] : cuda), ...(process.env['PATH'] ?? '').split(delimiter), '/usr/local/cuda/bin'];
    return folders.filter((folder) => folder !== '').map((folder) => join(folder, name)).find((path) => existsSync(path));
  }

  #ask(path: string, args: string[]): string {
    const key = `${path} ${statSync(path).mtimeMs} ${args.join(' ')}`;
    let answer = this.#asked.get(key);
    if (answer === undefined) {
      const { stdout } = spawnSync(path, args, { encoding: 'utf8', timeout: PROBE_LIMIT_MS, stdio: ['ignore', 'pipe', 'pipe'] });
      this.#asked.set(key, (answer = stdout ?? ''));
    }
    return answer;
  }
}

function missing(name: string, without: string): FoundTool {
  return { name, version: '', archs: [], missing: without };
}

/** nvcc lists sm_90 and takes sm_90a (instructions of exactly that architecture) too; it exists from 9.0 on. */
function withFeatureArchs(codes: string[]): string[] {
  const sorted = [...new Set(codes)].sort((a, b) => Number(a.slice(3)) - Number(b.slice(3)));
  return sorted.flatMap((code) => (Number(code.slice(3)) >= 90 ? [code, `${code}a`] : [code]));
}

/** Code made with -march=native is right for processors with the same features only. */
function hostProcessor(): string {
  const flags = existsSync('/proc/cpuinfo') ? (/^(?:flags|Features)\s*:.*$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[0] ?? '') : '';
  return `${process.platform} ${process.arch} ${cpus()[0]?.model ?? ''} ${flags}`;
}
