/**
 * Runs a kernel's Python in the sandbox, with tools/compile_triton.py. A fake package named triton replaces Triton,
 * because these attacks happen in the kernel's Python before Triton would compile anything.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { parseManifest, resolveVariant, type TritonUnit } from '@flashcore/shared/kernels';
import { missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findBox } from '../sandbox/find-box.ts';
import { ArtifactStore } from '../store/artifacts.ts';
import { CompileCache, type Compilation } from './compile-cache.ts';
import { tritonUnit } from './triton-unit.ts';

const ROOT = join(import.meta.dirname, '../../../..');
const MANIFEST = join(ROOT, 'test/fixtures/triton/softmax/kernel.yaml');
const noBox = missing('bubblewrap') || missing('python3');

let folder: string;
// Made here rather than at the top level, because if all tests are skipped no hook removes the folder.
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'flashcore-triton-unit-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PACKAGE = {
  '__init__.py': `import inspect
import types


def jit(function):
    function.params = [
        types.SimpleNamespace(name=name, is_constexpr=True, has_default=False, default=None)
        for name in inspect.signature(function).parameters
    ]
    return function


def compile(source, target, options):
    function, _, constants, _ = source
    name, bytes = function.__name__, sum(constants.values())
    ptx = f'''.version 8.7
.target sm_80
.address_size 64

.extern .shared .align 16 .b8 global_smem[];
.global .align 1 .b8 text[2] = {{{bytes}, 0}};
.visible .entry {name}(
\\t.param .u64 {name}_param_0
)
{{
\\t.loc\\t{1 + bytes} 7 0
\\tld.param.b64 %rd1, [{name}_param_0];
\\tmov.b64 %rd2, text;
\\tret;
}}
\\t.file\\t{1 + bytes} "/there/kernel.py"
\\t.file\\t99 "/there/standard{bytes}.py"
\\t.section\\t.debug_abbrev
\\t{{
.b8 1
\\t}}
'''
    return types.SimpleNamespace(asm={"ptx": ptx}, metadata=types.SimpleNamespace(shared=bytes, global_scratch_size=0))
`,
  'backends/__init__.py': '',
  'backends/compiler.py': 'GPUTarget = print\n',
  'compiler.py': 'def ASTSource(*arguments):\n    return arguments\n',
};
beforeAll(() => {
  for (const [name, text] of Object.entries(PACKAGE)) {
    const file = join(folder, 'site/triton', name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
});

const whole: TritonUnit = {
  entry: 'softmax',
  symbol: 'softmax',
  function: 'softmax',
  values: {},
  own: [],
  types: [],
};

/** Compiles Python that begins with a statement. */
async function compiled(
  statement: string,
  { limitMs = 30_000, entries = [whole], parameters = '' } = {},
): Promise<Compilation & { ms: number; ptx: string }> {
  const manifest = parseManifest(readFileSync(MANIFEST, 'utf8'), MANIFEST);
  const text = `import triton\n${statement}\n\n\n@triton.jit\ndef softmax(${parameters}):\n    pass\n`;
  const unit = tritonUnit({
    triton: {
      name: 'triton',
      path: '/usr/bin/python3',
      version: '0',
      identity: statement,
      prefix: '/usr',
      sitePackages: join(folder, 'site'),
    },
    spec: {
      kernelId: 'softmax',
      folderDigest: '',
      folder,
      source: 'kernel.py',
      resolved: resolveVariant(manifest),
      arch: 'sm_80',
      emulated: true,
      entries: ['softmax'],
      launches: [],
      triton: entries,
    },
    files: [{ path: 'kernel/kernel.py', text }],
    script: readFileSync(join(ROOT, 'tools/compile_triton.py'), 'utf8'),
  });
  const began = performance.now();
  const artifacts = new ArtifactStore(join(folder, 'artifacts'));
  const cache = new CompileCache(join(folder, 'cache'), artifacts, {
    box: () => findBox('required'),
  });
  const compilation = await cache.compile({ ...unit, limitMs }, { signal: AbortSignal.timeout(60_000) });
  const [made] = compilation.outputs;
  const ptx = made ? readFileSync(artifacts.path(made.sha256), 'utf8') : '';
  return { ...compilation, ms: performance.now() - began, ptx };
}

test.skipIf(noBox)('harmless Python is compiled to PTX', async () => {
  const { exitCode, lines, outputs } = await compiled('');
  expect([exitCode, outputs.map(({ kind }) => kind)], lines.join('\n')).toEqual([0, ['ptx']]);
});

const own = (name: string, WIDE: number): TritonUnit => ({
  ...whole,
  entry: `softmax[${name}=${WIDE}]`,
  symbol: `softmax__${name}_${WIDE}`,
  values: { [name]: WIDE },
  own: [name],
});

test.skipIf(noBox)('entries with constexprs of their own become one module', async () => {
  const entries = [own('WIDE', 3), own('WIDE', 5)];
  const { ptx, lines } = await compiled('', { parameters: 'WIDE', entries });
  const [first, second] = [3, 5].map(
    (bytes, at) => `
.global .align 1 .b8 text_${at}[2] = {${bytes}, 0};
.visible .entry softmax__WIDE_${bytes}(
\t.param .u64 softmax__WIDE_${bytes}_param_0
)
{
\t.loc\t1 7 0
\tld.param.b64 %rd1, [softmax__WIDE_${bytes}_param_0];
\tmov.b64 %rd2, text_${at};
\tret;
}
`,
  );
  expect(ptx, lines.join('\n')).toBe(`// flashcore: softmax__WIDE_3: 3 bytes of dynamic shared memory
// flashcore: softmax__WIDE_5: 5 bytes of dynamic shared memory
.version 8.7
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 global_smem[];
${first}${second}\t.file\t1 "kernel.py"
\t.file\t2 "standard3.py"
\t.file\t3 "standard5.py"
`);
});

test.skipIf(noBox)('an entry that gives a constexpr which its function lacks is refused', async () => {
  const { exitCode, lines } = await compiled('', { parameters: 'WIDE', entries: [own('WIDE', 1), own('WIDTH', 1)] });
  expect([exitCode, lines.at(-1)]).toEqual([1, expect.stringMatching(/softmax's constexpr WIDE must be a parameter/)]);
  const unknown = [{ ...own('WIDTH', 1), values: { WIDE: 1, WIDTH: 1 } }];
  expect((await compiled('', { parameters: 'WIDE', entries: unknown })).lines.at(-1)).toMatch(
    /softmax has no constexpr WIDTH, which the entry in kernel.yaml names/,
  );
});

test.skipIf(noBox)('Python that loops forever is killed at the time limit', async () => {
  const { timedOut, exitCode, outputs, ms } = await compiled('while True: pass', { limitMs: 2_000 });
  expect([timedOut, exitCode, outputs]).toEqual([true, 137, []]);
  expect(ms).toBeLessThan(20_000);
});

test.skipIf(noBox)("processes that a kernel's Python forked are ended along with it", async () => {
  const { exitCode, ms } = await compiled('import os, time\nif os.fork() == 0:\n    time.sleep(1000)');
  expect(exitCode).toBe(0);
  expect(ms).toBeLessThan(20_000);
});

test.skipIf(noBox).each<[string, string, RegExp]>([
  ['writes outside its folder', 'open("/usr/flashcore-was-here", "w")', /Read-only file system|Permission denied/],
  ['opens a socket', 'import socket; socket.socket()', /PermissionError/],
  ['allocates 100 GiB', 'x = bytearray(100 * 2**30)', /MemoryError/],
  ['prints 100 MB at once', 'print("x" * 10**8)', /must print at most 262144 bytes/],
  ['prints 1 GB in lines', 'for _ in range(10**6): print("x" * 1000)', /must print at most 262144 bytes/],
  [
    'ends Python in a line',
    'import os; os.write(1, b"half"); os._exit(0)',
    /ended with exit status 0 before Triton had compiled/,
  ],
  ['kills itself', 'import os; os.kill(os.getpid(), 9)', /ended with signal 9/],
  [
    'starts 300 processes',
    'import os, time\nfor _ in range(300):\n    if os.fork() == 0: time.sleep(1000)\ntime.sleep(1000)',
    /must run at most 64 processes while Triton compiles it, got \d+/,
  ],
  ['patches Triton', 'triton.compile = lambda *_, **__: 1 / 0', /division by zero/],
  ['makes a link of the PTX', 'import os; os.symlink("/etc/passwd", "kernel.ptx"); os._exit(0)', /before Triton had/],
  ['does not parse', 'def broken(:', /SyntaxError/],
])('Python that %s causes an error at one of its lines', async (_, statement, words) => {
  const { exitCode, lines, outputs } = await compiled(statement);
  expect([exitCode, outputs, lines.at(-1)]).toEqual([1, [], expect.stringMatching(/^kernel\.py:\d+:\d+: error: /)]);
  expect(lines.at(-1)).toMatch(words);
  expect(existsSync('/usr/flashcore-was-here')).toBe(false);
});
