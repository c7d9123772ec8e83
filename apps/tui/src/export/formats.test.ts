/** The exported files: Python that parses, and what KernelBench's static checker refuses is not in them. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import type { ExportedKernel } from './exported-kernel.ts';
import { inlineSources, renameToken, withoutComments } from './inline-sources.ts';
import { kernelBenchFiles } from './kernelbench.ts';
import { base85, torchFile } from './torch-file.ts';

const KERNELS = join(import.meta.dirname, '../../../../kernels');
const CUBIN = Uint8Array.from({ length: 1001 }, (_, index) => (index * 37) % 256);

function exported(id: string): ExportedKernel {
  const folder = join(KERNELS, id);
  const manifest = parseManifest(readFileSync(join(folder, 'kernel.yaml'), 'utf8'), folder);
  const { parameters, defines } = resolveVariant(manifest, {}, undefined);
  const sources: { path: string; text: string }[] = [];
  const read = (path: string): void => {
    if (sources.some((each) => each.path === path)) return;
    const text = tryRead(join(folder, path)) ?? tryRead(join(KERNELS, path));
    if (text === undefined) return;
    sources.push({ path, text });
    for (const [, name] of text.matchAll(/#\s*include\s*"([^"]+)"/g)) read(name!);
  };
  read(manifest.source);
  return {
    manifest,
    parameters,
    arch: 'sm_90a',
    cubin: CUBIN,
    sources,
    flags: ['-std=c++17', '-O3', '--use_fast_math', ...defines],
    origin: {
      buildId: 'ab'.repeat(32),
      job: 'jobs/1',
      label: 'x',
      compiler: 'nvcc',
      runner: '0.1.0',
      sourceDigest: '',
    },
  };
}

function tryRead(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function python(program: string, input = ''): string {
  const { status, stdout, stderr } = spawnSync('python3', ['-c', program], { input, encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return stdout;
}

const LADDER = ['fa_v1_baseline', 'fa_s512_v3_wmma', 'fa_tc_s512', 'flashcore_v6', 'flashcore_v10', 'flashcore_v11'];

test.each(LADDER)('%s: the torch file parses, and has the machine code in it', (id) => {
  const text = torchFile(exported(id));
  const program =
    'import ast, base64, sys, zlib\ntree = ast.parse(sys.stdin.read())\n' +
    'cubin = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "_CUBIN")\n' +
    'print(zlib.decompress(base64.b85decode(ast.literal_eval(cubin.value))).hex())';
  expect(python(program, text).trim()).toBe(Buffer.from(CUBIN).toString('hex'));
});

// KernelBench's kernel_static_checker.py, its strict rules as data (HEAD 423217d, 2026-03-05).
const REFUSED = [
  /\btry\s*:/,
  /\bexcept\b/,
  /\bpass\b/,
  /\b(threading|multiprocessing|concurrent\.futures)\b/,
  /_make_subclass/,
  /torch\.cuda\.Event\.elapsed_time\s*=|time\.perf_counter\s*=/,
];
/** As the checker strips comments: by text, in strings too. */
const stripped = (text: string): string => text.replaceAll(/(#|\/\/)[^\n]*/g, '');

test.each(LADDER)('%s: KernelBench takes ModelNew', (id) => {
  const { 'model_new.py': model, 'reference.py': reference } = kernelBenchFiles(exported(id));
  expect(python('import ast, sys\nast.parse(sys.stdin.read())\nprint("parses")', model)).toBe('parses\n');
  const text = stripped(model!);
  expect(REFUSED.filter((rule) => rule.test(text)).map(String)).toEqual([]);
  expect([/__global__/.test(text), /load_inline|cpp_extension/.test(text)]).toEqual([true, true]);
  expect(reference).toContain('class Model(nn.Module)');
});

test('headers stand in the place of their first include; comments go, strings and lines stay; tokens are renamed', () => {
  const sources = [
    { path: 'k.cu', text: '#include "a.h"\n#include <math.h>\n#include "a.h"\nint pass; // pass\n' },
    { path: 'a.h', text: '#pragma once\n/* two\nlines */ const char* s = "// pass";\n' },
  ];
  const text = withoutComments(inlineSources(sources));
  expect(renameToken(text, 'pass', 'pass_')).toBe(
    '\n\n const char* s = "// pass";\n\n#include <math.h>\n\nint pass_;\n',
  );
});

test('base85 is what Python reads, whatever the length', () => {
  for (const length of [0, 1, 2, 3, 4, 5, 100])
    expect(
      python(
        `import base64\nprint(base64.b85decode(${JSON.stringify(base85(CUBIN.subarray(0, length)))}).hex())`,
      ).trim(),
    ).toBe(Buffer.from(CUBIN.subarray(0, length)).toString('hex'));
});
