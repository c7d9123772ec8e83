/**
 * Checks the exported files: Python parses them, and they contain nothing that KernelBench's static checker refuses.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { checkShape, manifestOfVariant, parseManifest, resolveVariant } from '@flashcore/shared/kernels';
import { TimingMode, Verdict } from '@flashcore/shared/contract';
import { ALL_TESTS, inFull, missing } from '@flashcore/shared/testing';
import { expect, onTestFinished, test } from 'vitest';
import * as z from 'zod';
import { ladderJob } from '../testing/measured-job.ts';
import type { ExportedKernel } from './exported-kernel.ts';
import { kernelBenchFiles } from './kernelbench.ts';
import { flashInferFiles } from './flashinfer.ts';
import { kernelBuilderFiles } from './kernel-builder.ts';
import { lastVerdict, shapesOf } from './stored-jobs.ts';
import { popcornFile } from './popcorn.ts';
import { robustKbenchFiles } from './robust-kbench.ts';
import { withToldForms } from './collect.ts';
import { base85, torchFile } from './torch-file.ts';
import { wheelFiles } from './torch-wheel.ts';
import { inlineSources, renameToken, withoutComments } from './kernel-unit.ts';

const pythonTest = test.skipIf(missing('python3'));

const KERNELS = join(import.meta.dirname, '../../../../kernels');
const CUBIN = Uint8Array.from({ length: 1001 }, (_, index) => (index * 37) % 256);

function exported(id: string, variant: Parameters<typeof resolveVariant>[1] = {}): ExportedKernel {
  const folder = join(KERNELS, id);
  const manifest = parseManifest(readFileSync(join(folder, 'kernel.yaml'), 'utf8'), folder);
  const { parameters, dtype, defines } = resolveVariant(manifest, variant, undefined);
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
    manifest: manifestOfVariant(manifest, parameters),
    parameters,
    dtype,
    arch: 'sm_90a',
    cubins: [{ entries: [], bytes: CUBIN }],
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
    measured: [],
    license: 'Apache-2.0',
    verdict: undefined,
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

/** Throws if one of the texts is not Python; parses all of them in one process. */
const parsePython = (texts: readonly string[]): void =>
  void python('import ast, json, sys\nfor text in json.load(sys.stdin): ast.parse(text)', JSON.stringify(texts));

const LADDER = ['fa_v1_baseline', 'fa_s512_v3_wmma', 'fa_tc_s512', 'flashcore_v6', 'flashcore_v10', 'flashcore_v11'];

/** The entries and the machine code of a torch file, as Python reads them. */
const cubinsIn = (text: string): unknown =>
  JSON.parse(
    python(
      'import ast, base64, json, sys, zlib\ntree = ast.parse(sys.stdin.read())\n' +
        'cubins = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "_CUBINS")\n' +
        'print(json.dumps([[e, zlib.decompress(base64.b85decode(t)).hex()] for e, t in ast.literal_eval(cubins.value)]))',
      text,
    ),
  );

pythonTest.each(inFull(LADDER, (id) => id === 'flashcore_v11'))(
  'the torch file of %s parses and contains the machine code',
  (id) => {
    expect(cubinsIn(torchFile(exported(id)))).toEqual([[null, Buffer.from(CUBIN).toString('hex')]]);
  },
);

pythonTest('entries that were compiled separately have their own machine code in the torch file', () => {
  const parts = ['one', 'another'].map((entry) => ({ entries: [entry], bytes: Buffer.from(entry) }));
  expect(cubinsIn(torchFile({ ...exported('flashcore_v11'), cubins: parts }))).toEqual(
    ['one', 'another'].map((entry) => [[entry], Buffer.from(entry).toString('hex')]),
  );
});

pythonTest('three quotes in a source, a title or the text of a limit do not end a string of an exported file', () => {
  const kernel = exported('fa_v1_baseline');
  const [unit, ...others] = kernel.sources;
  const literal = `"''' + open('x', 'w') + r'''"`;
  const [limit] = kernel.manifest.limits;
  const hostile: ExportedKernel = {
    ...kernel,
    sources: [{ ...unit!, text: `${unit!.text}\nstatic const char* text = ${literal};\n` }, ...others],
    manifest: {
      ...kernel.manifest,
      title: '"""\nimport os',
      limits: [{ ...limit!, because: "''' + evil() + '''" }],
    },
  };
  const program =
    'import ast, sys\ntree = ast.parse(sys.stdin.read())\n' +
    'cuda = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "CUDA")\n' +
    'print(ast.literal_eval(cuda.value))';
  expect(python(program, kernelBenchFiles(hostile)['model_new.py'])).toContain(literal);
  const names = 'import ast, sys\nprint([type(n).__name__ for n in ast.parse(sys.stdin.read()).body[:3]])';
  expect(python(names, torchFile(hostile)).trim()).toBe("['Expr', 'Import', 'Import']");
});

type Lie = Partial<Pick<ExportedKernel, 'arch' | 'flags' | 'parameters'>> & { buildId?: string };

test.each<[what: string, lie: Lie, message: RegExp]>([
  ['an architecture', { arch: 'sm_90"""\nimport os' }, /the architecture sm_90/],
  ['a flag', { flags: ['-O3; touch x'] }, /the flag -O3; touch x/],
  ['a macro', { flags: ['-DX=1\n#include "/etc/passwd"'] }, /the flag -DX=1/],
  ['a parameter', { parameters: { 'x; import os': 1 } }, /the parameter x; import os/],
  ['a build', { buildId: '/../../x' }, /the build_id \/\.\.\/\.\.\/x/],
])('a false answer of the runner about %s does not reach an exported program', (_, { buildId, ...told }, message) => {
  const kernel = exported('flashcore_v6');
  const origin = { ...kernel.origin, ...(buildId !== undefined && { buildId }) };
  expect(() => withToldForms({ ...kernel, ...told, origin })).toThrow(message);
});

test.each(LADDER)("%s: a correct runner's data stays unchanged, and texts become single lines", (id) => {
  const kernel = exported(id);
  expect(withToldForms(kernel)).toEqual(kernel);
  const origin = { ...kernel.origin, label: 'A=1\nimport os' };
  expect(withToldForms({ ...kernel, origin }).origin.label).toBe('A=1import os');
});

test('a bf16 kernel is exported in every format as an operator on bf16 tensors', () => {
  const kernel = exported('flashcore_v10', { parameters: { BF16: 1 } });
  const files = {
    'attention.py': torchFile(kernel),
    ...kernelBenchFiles(kernel),
    ...robustKbenchFiles(kernel),
    ...flashInferFiles(kernel),
    ...kernelBuilderFiles(kernel),
  };
  const ours = Object.entries(files).map(([path, text]) => [path, text.replace(/#define BF16 1[^]*#undef BF16/, '')]);
  const other = /\b(?:float16|kHalf|fp16)\b|DATA_TYPE_FLOAT16/;
  expect(ours.filter(([, text]) => other.test(text!)).map(([path]) => path)).toEqual([]);
  const names = ours.flatMap(([, text]) => text!.match(/torch\.bfloat16|kBFloat16|DATA_TYPE_BFLOAT16/g) ?? []);
  expect(new Set(names)).toEqual(new Set(['torch.bfloat16', 'kBFloat16', 'DATA_TYPE_BFLOAT16']));
  expect(Object.keys(files)).toContain('definitions/mha_dense/mha_fwd_bf16_causal_h8_d64.json');
});

// The strict rules of KernelBench's kernel_static_checker.py as data (HEAD 423217d, 2026-03-05).
const REFUSED = [
  /\btry\s*:/,
  /\bexcept\b/,
  /\bpass\b/,
  /\b(threading|multiprocessing|concurrent\.futures)\b/,
  /_make_subclass/,
  /torch\.cuda\.Event\.elapsed_time\s*=|time\.perf_counter\s*=/,
];
/** Strips comments as the checker does: by text, even inside strings. */
const stripped = (text: string): string => text.replaceAll(/(#|\/\/)[^\n]*/g, '');

pythonTest.each(LADDER)("KernelBench's rules accept ModelNew of %s", (id) => {
  const { 'model_new.py': model, 'reference.py': reference } = kernelBenchFiles(exported(id));
  expect(python('import ast, sys\nast.parse(sys.stdin.read())\nprint("parses")', model)).toBe('parses\n');
  const text = stripped(model!);
  expect(REFUSED.filter((rule) => rule.test(text)).map(String)).toEqual([]);
  expect([/__global__/.test(text), /load_inline|cpp_extension/.test(text)]).toEqual([true, true]);
  expect(reference).toContain('class Model(nn.Module)');
});

pythonTest.each([...LADDER, 'flashcore_v12'])("GPU MODE's rules accept the submission of %s", (id) => {
  const text = popcornFile(exported(id));
  parsePython([text]);
  // The server refuses "stream" anywhere, and reads directives only in the first comments (kernelbot 4bdd839).
  expect(text).not.toMatch(/stream/i);
  expect(text).toMatch(/^(#(?!!)[^\n]*\n)+import torch\n/);
  expect(text).toMatch(/^def custom_kernel\(data: input_t\) -> output_t:$/m);
});

test("a kernel with the word that GPU MODE's server refuses is not exported for GPU MODE, and the error gives the line", () => {
  const kernel = exported('fa_v1_baseline');
  const [unit, ...others] = kernel.sources;
  const text = `// one stream\nint bitstream;\n${unit!.text}`;
  const word = () => popcornFile({ ...kernel, sources: [{ ...unit!, text }, ...others] });
  expect(word).toThrow(/the word "stream", which is in line 2 of fa_v1_baseline\.cu: use another name there/);
});

test('headers replace their first include; comments are removed, strings and lines stay; tokens are renamed', () => {
  const sources = [
    { path: 'k.cu', text: '#include "a.h"\n#include <math.h>\n#include "a.h"\nint pass; // pass\n' },
    { path: 'a.h', text: '#pragma once\n/* two\nlines */ const char* s = "// pass";\n' },
  ];
  const text = withoutComments(inlineSources(sources));
  expect(renameToken(text, 'pass', 'pass_')).toBe(
    '\n\n const char* s = "// pass";\n\n#include <math.h>\n\nint pass_;\n',
  );
});

pythonTest('Python decodes the base85 text, whatever the length', () => {
  const parts = [0, 1, 2, 3, 4, 5, 100].map((length) => CUBIN.subarray(0, length));
  const decoded = python(
    'import base64, json, sys\nprint(json.dumps([base64.b85decode(text).hex() for text in json.load(sys.stdin)]))',
    JSON.stringify(parts.map(base85)),
  );
  expect(JSON.parse(decoded)).toEqual(parts.map((part) => Buffer.from(part).toString('hex')));
});

// The short form has the other tests of what the wheel contains.
if (ALL_TESTS)
  test.skipIf(missing('python3-pip'))(
    'pip installs and lists the wheel, which contains the PyTorch file',
    { timeout: 60_000 },
    () => {
      const folder = mkdtempSync(join(tmpdir(), 'fc-wheel-'));
      onTestFinished(() => rmSync(folder, { recursive: true }));
      const kernel = exported('flashcore_v12');
      const [[name, bytes]] = Object.entries(wheelFiles(kernel)) as [[string, Uint8Array]];
      expect(name).toBe('flashcore_v12-0.1.0+abababababab-py3-none-any.whl');
      expect(wheelFiles(kernel)).toEqual({ [name]: bytes });
      writeFileSync(join(folder, name), bytes);
      const install = ['-m', 'pip', 'install', '--quiet', '--no-deps', '--no-index', '--target', join(folder, 'site')];
      execFileSync('python3', [...install, join(folder, name)], { stdio: ['ignore', 'ignore', 'pipe'] });
      expect(readFileSync(join(folder, 'site/flashcore_v12.py'), 'utf8')).toBe(torchFile(kernel));
      // A different build gets a different version, and the wheel of a user's kernel does not name a license.
      const origin = { ...kernel.origin, buildId: 'cd'.repeat(32) };
      const own = Object.entries(wheelFiles({ ...kernel, origin, license: undefined }))[0]!;
      expect(own[0]).toBe('flashcore_v12-0.1.0+cdcdcdcdcdcd-py3-none-any.whl');
      writeFileSync(join(folder, own[0]), own[1]);
      const pair = { ...kernel, backward: { ...kernel, origin, license: undefined } };
      const [[nameOfPair, bytesOfPair]] = Object.entries(wheelFiles(pair)) as [[string, Uint8Array]];
      expect(nameOfPair).toBe('flashcore_v12-0.1.0+abababababab.cdcdcdcdcdcd-py3-none-any.whl');
      writeFileSync(join(folder, nameOfPair), bytesOfPair);
      execFileSync('python3', [...install, '--upgrade', join(folder, nameOfPair)], {
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const metadata = python(
        `import sys, zipfile
archive = zipfile.ZipFile(sys.stdin.readline())
assert archive.testzip() is None
print(archive.read("flashcore_v12-0.1.0+cdcdcdcdcdcd.dist-info/METADATA").decode())`,
        join(folder, own[0]),
      );
      expect(metadata).toMatch(/^Requires-Dist: torch>=2\.4$/m);
      expect(metadata).not.toMatch(/License/);
    },
  );

// FlashInfer-Bench's schemas as data (HEAD 40e6ca7, 2026-04-30); unknown fields are refused.
const DTYPE = z.enum(['float32', 'float16', 'bfloat16', 'int64', 'int32', 'int16', 'int8', 'bool']);
const TENSORS = z.record(z.string(), z.strictObject({ shape: z.array(z.string()).nullable(), dtype: DTYPE }));
const DEFINITION = z.strictObject({
  name: z.string(),
  op_type: z.string(),
  description: z.string().optional(),
  axes: z.record(
    z.string(),
    z.discriminatedUnion('type', [
      z.strictObject({ type: z.literal('const'), value: z.number().int() }),
      z.strictObject({ type: z.literal('var') }),
    ]),
  ),
  inputs: TENSORS,
  outputs: TENSORS,
  reference: z.string().regex(/^def run\(/m),
  tags: z.array(z.string()),
  constraints: z.array(z.string()),
});
const WORKLOAD = z.strictObject({
  axes: z.record(z.string(), z.number().int()),
  inputs: z.record(z.string(), z.strictObject({ type: z.literal('random') })),
  uuid: z.uuid(),
});
const SOLUTION = z.strictObject({
  name: z.string(),
  definition: z.string(),
  author: z.string(),
  description: z.string(),
  spec: z.strictObject({
    language: z.literal('python'),
    target_hardware: z.array(z.string()).min(1),
    entry_point: z.string().regex(/^[^:]+::\w+$/),
    dependencies: z.array(z.string()),
    destination_passing_style: z.literal(true),
  }),
  sources: z.array(z.strictObject({ path: z.string(), content: z.string() })).min(1),
});
const PASSED = z.strictObject({
  status: z.literal('PASSED'),
  environment: z.strictObject({ hardware: z.string().min(1), libs: z.record(z.string(), z.string()) }),
  timestamp: z.iso.datetime(),
  log: z.string(),
  correctness: z.strictObject({ max_relative_error: z.number(), max_absolute_error: z.number() }),
  performance: z.strictObject({ latency_ms: z.number(), reference_latency_ms: z.number(), speedup_factor: z.number() }),
});
const TRACE = z.strictObject({
  definition: z.string(),
  workload: WORKLOAD,
  solution: z.string().nullable(),
  evaluation: PASSED.nullable(),
});

const jsonLines = (text: string): unknown[] =>
  text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
pythonTest('every format says that an exported kernel is wrong, and Python warns at import', () => {
  const verdict = { right: false, outcome: 'WRONG_RESULT', job: 'jobs/7' };
  const kernel = { ...exported('fa_v1_baseline'), verdict };
  const torch = torchFile(kernel);
  const files: Record<string, string> = {
    torch,
    ...kernelBenchFiles(kernel),
    'submission.py': popcornFile(kernel),
    ...kernelBuilderFiles(kernel),
    'forward.cu': robustKbenchFiles(kernel)['forward.cu']!,
    ...Object.fromEntries(Object.entries(flashInferFiles(kernel)).filter(([path]) => path.startsWith('solutions/'))),
  };
  const saying = Object.entries(files).filter(([, text]) => text.replaceAll('\\', '').includes('UNVERIFIED: fa_v1'));
  expect(saying.map(([path]) => path.replace(/.*\//, ''))).toEqual([
    'torch',
    'model_new.py',
    'submission.py',
    'CARD.md',
    '__init__.py',
    'forward.cu',
    'fa_v1_baseline_abababab_mha_fwd_h8_d64.json',
    'fa_v1_baseline_abababab_mha_fwd_causal_h8_d64.json',
  ]);
  const { sources } = JSON.parse(saying.at(-1)![1]) as { sources: { content: string }[] };
  const programs = [torch, files['model_new.py']!, files['torch-ext/flashcore_fa_v1_baseline/__init__.py']!];
  const warned = python(
    `import ast, json, sys
for text in json.load(sys.stdin):
    print(sum(isinstance(n, ast.Call) and ast.unparse(n.func) == "warnings.warn" for s in ast.parse(text).body if not isinstance(s, (ast.FunctionDef, ast.ClassDef)) for n in ast.walk(s)))`,
    JSON.stringify([...programs, sources[0]!.content]),
  );
  expect(warned).toBe('1\n1\n1\n1\n');
});

test("the card names the operators, and names no license for a user's kernel", () => {
  const manifest = parseManifest(
    readFileSync(join(KERNELS, 'fa_v1_baseline/kernel.yaml'), 'utf8').replace(
      /^limits:\n/m,
      'limits:\n  - require: D == 64 || D == 128\n    because: a row is a | b, S*D < 2 and `code` or <b>\n',
    ),
    join(KERNELS, 'fa_v1_baseline'),
  );
  const own = kernelBuilderFiles({ ...exported('fa_v1_baseline'), manifest, license: undefined });
  expect(own['CARD.md']).toContain('`D == 64 || D == 128`: a row is a \\| b, S\\*D \\< 2 and \\`code\\` or \\<b\\>');
  expect(JSON.stringify(own).match(/apache/i)).toBeNull();
  expect(kernelBuilderFiles(exported('fa_v1_baseline'))['CARD.md']).toContain('license: apache-2.0');
});

pythonTest.each(LADDER)("FlashInfer-Bench's data set of %s follows the schemas and is complete", (id) => {
  const files = flashInferFiles(exported(id));
  const named = (folder: string) => Object.entries(files).filter(([path]) => path.startsWith(`${folder}/`));
  const definitions = named('definitions').map(([, text]) => DEFINITION.parse(JSON.parse(text)));
  expect(definitions.length).toBeGreaterThan(0);
  const byName = new Map(definitions.map((each) => [each.name, each]));
  for (const { axes, inputs, outputs } of definitions) {
    for (const { shape } of [...Object.values(inputs), ...Object.values(outputs)])
      expect(shape!.filter((axis) => axes[axis] === undefined)).toEqual([]);
  }
  parsePython(definitions.map(({ reference }) => reference));
  for (const [, text] of named('workloads'))
    for (const line of jsonLines(text)) {
      const { definition, workload } = TRACE.parse(line);
      const { axes, inputs } = byName.get(definition)!;
      const variable = Object.keys(axes).filter((axis) => axes[axis]!.type === 'var');
      expect(Object.keys(workload.axes)).toEqual(variable);
      expect(Object.keys(workload.inputs)).toEqual(Object.keys(inputs));
    }
  const solutions = named('solutions').map(([, text]) => SOLUTION.parse(JSON.parse(text)));
  expect(new Set(solutions.map(({ definition }) => definition))).toEqual(new Set(byName.keys()));
  expect(new Set(solutions.map(({ name }) => name)).size).toBe(solutions.length);
  for (const { spec, sources } of solutions) {
    const [file, entry] = spec.entry_point.split('::') as [string, string];
    expect(sources.find(({ path }) => path === file)!.content).toContain(`def ${entry}(q, k, v, output):`);
    expect(sources.find(({ path }) => path.endsWith('.cu'))!.content).toContain(
      `TVM_FFI_DLL_EXPORT_TYPED_FUNC(${entry}, ${entry})`,
    );
  }
  expect(named('traces')).toEqual([]);
});

pythonTest("FlashInfer-Bench's solution is built for the exported architecture, with the kernel's own flags", () => {
  const kernel = { ...exported('flashcore_v11'), flags: ['-std=c++17', '-O3', '-maxrregcount=168', '-arch=sm_90a'] };
  const solution = Object.entries(flashInferFiles(kernel)).find(([path]) => path.startsWith('solutions/'))![1];
  const { sources } = SOLUTION.parse(JSON.parse(solution));
  // Replaces the module tvm_ffi.cpp. The real load() reads TVM_FFI_CUDA_ARCH_LIST and adds extra_cuda_cflags after -O2.
  const built = python(
    `import json, os, sys, types
calls = []
def load(name, *, cuda_files, extra_cuda_cflags, build_directory):
    calls.append([os.environ.get("TVM_FFI_CUDA_ARCH_LIST"), extra_cuda_cflags, cuda_files, build_directory])
    return types.SimpleNamespace(mha_fwd=lambda *tensors: calls.append(tensors))
sys.modules["tvm_ffi"] = types.ModuleType("tvm_ffi")
sys.modules["tvm_ffi.cpp"] = sys.modules["tvm_ffi"].cpp = types.SimpleNamespace(load=load)
scope = {"__file__": "/solution/main.py", "__name__": "main"}
os.environ.pop("TVM_FFI_CUDA_ARCH_LIST", None)
exec(sys.stdin.read(), scope)
scope["mha_fwd"](1, 2, 3, 4)
print(json.dumps([*calls, os.environ.get("TVM_FFI_CUDA_ARCH_LIST")]))`,
    sources[0]!.content,
  );
  const flags = ['-std=c++17', '-O3', '-maxrregcount=168'];
  const halves = ['OPERATORS__', 'CONVERSIONS__'].map((each) => `-U__CUDA_NO_HALF_${each}`);
  const others = ['-U__CUDA_NO_HALF2_OPERATORS__', '-U__CUDA_NO_BFLOAT16_CONVERSIONS__'];
  expect(JSON.parse(built)).toEqual([
    ['9.0a', [...flags, ...halves, ...others], ['/solution/mha_fwd.cu'], '/solution/build'],
    [1, 2, 3, 4],
    null,
  ]);
});

test('a trace comes from a stored measurement of this exact build, with sdpa/math as its reference', () => {
  const job = ladderJob('flashcore_v11');
  const { build, benchmarks } = job.result!.variants[0]!;
  const measured = shapesOf(job, build!.buildId);
  const files = flashInferFiles({ ...exported('flashcore_v11'), measured });
  const traces = Object.entries(files).filter(([path]) => path.startsWith('traces/'));
  const evaluations = traces.flatMap(([, text]) => jsonLines(text)).map((line) => TRACE.parse(line).evaluation!);
  const hot = benchmarks.find(({ mode }) => mode === TimingMode.HOT)!;
  expect(evaluations.map(({ performance }) => performance.latency_ms)).toEqual([hot.latency!.p50Us / 1000]);
  expect(evaluations[0]!.environment).toMatchObject({
    hardware: 'NVIDIA H200',
    libs: { torch: expect.any(String) as string },
  });
  expect(shapesOf(job, 'another build')).toEqual([]);
  const simulated = structuredClone(job);
  for (const each of simulated.result!.variants[0]!.benchmarks) each.simulated = true;
  expect(shapesOf(simulated, build!.buildId)).toEqual([]);
});

test('the last verdict is the newest one on the same sources and parameters, whatever the target', () => {
  const right = ladderJob('flashcore_v11');
  const { manifest } = exported('flashcore_v11');
  const { parameters, build } = right.result!.variants[0]!;
  const source = {
    manifest,
    buildId: build!.buildId,
    sourceDigest: right.result!.provenance!.sourceDigest,
    parameters: Object.fromEntries(Object.entries(parameters).map(([name, value]) => [name, Number(value)])),
  };
  const wrong = structuredClone(right);
  wrong.job!.name = 'jobs/wrong';
  wrong.result!.variants[0]!.build!.buildId = 'of the emulator';
  wrong.result!.variants[0]!.verify!.cases[0]!.verdict = Verdict.FAIL;
  const verdict = { right: false, outcome: 'WRONG_RESULT', job: 'jobs/wrong' };
  expect(lastVerdict([wrong, right], source)).toEqual(verdict);
  expect(lastVerdict([right, wrong], source)).toMatchObject({ right: true, job: right.job!.name });
  // A pass of other shapes does not outweigh it.
  const narrower = structuredClone(right);
  for (const { shape } of narrower.result!.variants[0]!.verify!.cases) shape!.batch += 1;
  expect(lastVerdict([narrower, wrong], source)).toEqual(verdict);
  expect(lastVerdict([narrower, right, wrong], source)).toMatchObject({ right: true, job: narrower.job!.name });
  // There is no verdict for other sources, another variant, or a build that was not verified.
  const edited = structuredClone(wrong);
  edited.result!.provenance!.sourceDigest = 'edited';
  const unverified = structuredClone(right);
  unverified.result!.variants[0]!.verify = undefined;
  expect(lastVerdict([edited, unverified], source)).toBeUndefined();
  const sms = { ...source, buildId: 'another', parameters: { SMS: 78 } };
  expect(lastVerdict([wrong], sms)).toEqual(verdict);
});

// The schema of robust-kbench's task folder as data (HEAD 078f5ba, 2025-11-22).
const CONFIGS = z.array(z.record(z.string(), z.union([z.number(), z.boolean()]))).min(1);
const TASK_CONFIG = z.strictObject({
  single_input_configs: CONFIGS,
  single_init_configs: CONFIGS,
  single_shared_configs: CONFIGS,
  multi_input_configs: CONFIGS,
  multi_init_configs: CONFIGS,
  multi_shared_configs: CONFIGS,
});

pythonTest.each(LADDER)(
  "robust-kbench's task of %s has the required names, and only configurations that the kernel takes",
  (id) => {
    const kernel = exported(id);
    const files = robustKbenchFiles(kernel);
    const config = TASK_CONFIG.parse(JSON.parse(files['config_forward.json']!));
    const names = python(
      'import ast, sys\nt = ast.parse(sys.stdin.read())\n' +
        'print(*[n.name if hasattr(n, "name") else n.targets[0].id for n in t.body if isinstance(n, (ast.FunctionDef, ast.ClassDef, ast.Assign))])\n' +
        'print(*[a.arg for n in t.body if getattr(n, "name", "") == "get_inputs" for a in n.args.args])',
      files['func_forward.py'],
    ).trim();
    expect(names).toBe('forward_fn Model get_inputs input_names\nbatch_size num_heads seq_len head_dim');
    expect(files['func_forward.py']).toMatch(/"""\n\s+\S[^]*?Args:/);
    for (const input of config.multi_input_configs)
      for (const { causal } of config.multi_init_configs) {
        const shape = {
          batch: Number(input['batch_size']),
          heads: Number(input['num_heads']),
          sequenceLength: Number(input['seq_len']),
          headDim: Number(input['head_dim']),
          causal: Boolean(causal),
        };
        expect(checkShape(kernel.manifest, kernel, shape)).toBeUndefined();
      }
    expect(files['forward.cu']).toMatch(/PYBIND11_MODULE\(TORCH_EXTENSION_NAME, m\) \{\s+m\.def\("forward"/);
  },
);

pythonTest.each(LADDER)(
  "kernel-builder's project of %s has the files that build.toml names, and its Python parses",
  (id) => {
    const files = kernelBuilderFiles(exported(id));
    const project = JSON.parse(
      python('import json, sys, tomllib\nprint(json.dumps(tomllib.loads(sys.stdin.read())))', files['build.toml']),
    ) as { general: Record<string, unknown>; torch: { src: string[] }; kernel: { mha: Record<string, string[]> } };
    expect(project.general).toEqual({
      name: `flashcore-${id.replaceAll('_', '-')}`,
      version: 1,
      edition: 5,
      license: 'Apache-2.0',
      backends: ['cuda'],
    });
    const { mha } = project.kernel;
    expect(mha).toMatchObject({ backend: 'cuda', depends: ['torch'], 'cuda-capabilities': ['9.0a'] });
    expect([...project.torch.src, ...mha['src']!].filter((path) => files[path] === undefined)).toEqual([]);
    const module = `flashcore_${id}`;
    expect(Object.keys(files)).toEqual(
      expect.arrayContaining(['flake.nix', 'CARD.md', `torch-ext/${module}/__init__.py`, `tests/test_${module}.py`]),
    );
    const sources = Object.keys(files).filter((path) => path.endsWith('.py'));
    expect(sources.length).toBeGreaterThan(0);
    parsePython(sources.map((path) => files[path]!));
    // The binding declares the function that the kernel defines.
    const [, declared] = /void (mha_fwd_out\([^)]*\))/.exec(files['torch-ext/torch_binding.h']!)!;
    expect(files[mha['src']![0]!]).toContain(`void ${declared} {`);
  },
);

test('the exports of fa_v1_baseline match their golden, apart from the kernel’s source', async () => {
  const kernel = { ...exported('fa_v1_baseline'), sources: [{ path: 'k.cu', text: '// the kernel\n' }] };
  const all = { ...flashInferFiles(kernel), ...robustKbenchFiles(kernel), ...kernelBuilderFiles(kernel) };
  const text = Object.entries(all).map(([path, content]) => `=== ${path}\n${content}`);
  await expect(text.join('\n')).toMatchFileSnapshot('goldens/exports.txt');
});
