/**
 * Compares the exported launch plans, in Python and in C++, with the runner's own, over random shapes, and for random
 * expressions. The long form has every kernel of the repository.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import {
  CPP,
  CPP_HELPERS,
  PYTHON,
  PYTHON_HELPERS,
  evaluate,
  expressionCode,
  formatShape,
  parseExpression,
  manifestOfVariant,
  parseManifest,
  parseShape,
  planLaunches,
  resolveVariant,
  valuesOf,
  type LaunchPlan,
  type Manifest,
  type ShapeFields,
} from '@flashcore/shared/kernels';
import { edited, inFull, missing } from '@flashcore/shared/testing';
import { afterAll, describe, expect, test } from 'vitest';
import { exportProblem, pairProblem } from './collect.ts';
import { cppPlan, entriesOf } from './cpp-plan.ts';
import type { ExportFormat } from './export-options.ts';
import { pythonPlan } from './python-plan.ts';
import { operatorOf } from './torch-operator.ts';

const pythonTest = test.skipIf(missing('python3'));

const ROOT = join(import.meta.dirname, '../../../..');
const folder = mkdtempSync(join(tmpdir(), 'fc-export-'));
afterAll(() => rmSync(folder, { recursive: true }));

const python = (program: string): string => {
  const { status, stdout, stderr } = spawnSync('python3', ['-'], {
    input: program,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0) throw new Error(stderr);
  return stdout;
};
const cpp = (program: string): string => {
  const [source, binary] = [join(folder, 'program.cpp'), join(folder, 'program')];
  writeFileSync(source, program);
  execFileSync(process.env['CXX'] ?? 'c++', [
    '-std=c++17',
    '-O0',
    '-Wall',
    '-Werror',
    '-Wno-unused',
    source,
    '-o',
    binary,
  ]);
  return execFileSync(binary, { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 });
};

/** Plain launches and tensor maps; the fixture below has a workspace, clusters and a window of the L2 cache. */
const IN_SHORT = ['fa_v1_baseline', 'flashcore_v6', 'flashcore_v11'];
const folders = [
  ...inFull(readdirSync(join(ROOT, 'kernels')), (name) => IN_SHORT.includes(name)).map((name) =>
    join(ROOT, 'kernels', name),
  ),
  join(ROOT, 'test/fixtures/launch_options'),
].filter((path) => existsSync(join(path, 'kernel.yaml')));
const kernels = folders.flatMap((path) => {
  const manifest = parseManifest(readFileSync(join(path, 'kernel.yaml'), 'utf8'), path);
  const { parameters } = resolveVariant(manifest, {}, undefined);
  const pinned = 'PERSIST' in parameters ? [{ id: `${manifest.id} PERSIST=1`, PERSIST: 1 }] : [];
  return [
    { id: manifest.id, manifest: manifestOfVariant(manifest, parameters), parameters },
    ...pinned.map(({ id, PERSIST }) => ({ id, manifest, parameters: { ...parameters, PERSIST } })),
  ];
});
const shapes = fc.sample(
  fc.record({
    batch: fc.constantFrom(1, 2, 3, 16, 65_536),
    heads: fc.constantFrom(1, 8, 12, 64),
    sequenceLength: fc.oneof(fc.integer({ min: 1, max: 1024 }), fc.integer({ min: 1, max: 4_500_000 })),
    headDim: fc.constantFrom(32, 64, 64, 128, 128),
    causal: fc.boolean(),
  }),
  { numRuns: 60, seed: 14 },
);
type Case = ShapeFields;

/**
 * Cases for plans in Python. These plans also take grouped heads, numbers of keys that differ from the number of
 * queries, and masks that end at the last key.
 */
const cases: readonly Case[] = [
  ...shapes,
  ...fc.sample(
    fc.record({
      batch: fc.constantFrom(1, 2, 16),
      heads: fc.constantFrom(8, 12, 64),
      sequenceLength: fc.oneof(fc.constantFrom(1, 16, 64), fc.integer({ min: 1, max: 5000 })),
      headDim: fc.constantFrom(64, 128),
      causal: fc.boolean(),
      values: fc.record({
        Hkv: fc.constantFrom(1, 2, 4),
        Skv: fc.oneof(fc.constantFrom(1, 16, 64), fc.integer({ min: 1, max: 9000 })),
        causal: fc.constantFrom(0, 1, 2),
      }),
    }),
    { numRuns: 60, seed: 37 },
  ),
];

/** The tensors in the order of their numbers: first Q, K, V and O, as in the C++ plans. */
const tensorsOf = ({ problem }: Manifest): string[] => {
  const names = ['Q', 'K', 'V', 'O'];
  return [...names, ...problem.tensors.map(({ name }) => name).filter((name) => !names.includes(name))];
};

/** The runner's plan in the form that the generated programs print; "refused" if the runner refuses the shape. */
function wanted(manifest: Manifest, parameters: Record<string, number>, shape: Case): unknown {
  let plan: LaunchPlan;
  try {
    plan = planLaunches(manifest, { parameters }, shape);
  } catch {
    return 'refused';
  }
  const entries = entriesOf(manifest);
  const tensors = tensorsOf(manifest);
  return {
    launches: plan.launches.map((launch) => [
      entries.indexOf(launch.entry),
      ...launch.grid,
      ...launch.block,
      launch.sharedBytes,
      ...(launch.cluster ?? [0, 0, 0]),
      ...launch.l2Persist.map((name) => tensors.indexOf(name)),
      ...launch.arguments.flatMap((argument): (number | string | null)[] => {
        switch (argument.kind) {
          case 'tensor':
            return ['t', tensors.indexOf(argument.tensor)];
          case 'workspace':
            return ['w', plan.workspace.findIndex(({ name }) => name === argument.name)];
          case 'int32':
          case 'float32':
            return ['n', argument.value];
          case 'null':
            return ['n', null];
          case 'tensorMap': {
            const [columns, rows, heads = 1] = argument.box;
            const swizzle = ['none', '32B', '64B', '128B'].indexOf(argument.swizzle);
            return ['m', tensors.indexOf(argument.tensor), columns!, rows!, heads, swizzle];
          }
          default:
            throw new Error(`no kernel of the repository passes ${argument.kind}`);
        }
      }),
    ]),
    workspace: plan.workspace.map(({ bytes }) => bytes),
  };
}

const IMPORTS = 'import collections, functools, json, math\n';

function pythonPrints(
  { manifest, parameters }: Pick<(typeof kernels)[number], 'manifest' | 'parameters'>,
  of: readonly Case[],
): unknown {
  const rows = of.map((each) => {
    const values = valuesOf(each);
    const known = manifest.problem.axes.map(({ name }) => name);
    const given = manifest.problem.attributes.filter(({ value }) => value === undefined).map(({ name }) => name);
    return Object.fromEntries(
      [...known, ...given].flatMap((name) => (values[name] === undefined ? [] : [[name, values[name]]])),
    );
  });
  return JSON.parse(
    python(`${IMPORTS}${pythonPlan(manifest, parameters)}
TENSORS = ${JSON.stringify(tensorsOf(manifest))}
ENTRIES = ${JSON.stringify(entriesOf(manifest))}
WORKSPACES = ${JSON.stringify(manifest.workspace.map(({ name }) => name))}
def numbers(argument):
    kind, value, *rest = argument
    if kind == "tensor":
        return ["t", TENSORS.index(value)]
    if kind == "workspace":
        return ["w", WORKSPACES.index(value)]
    if kind == "tensor_map":
        box, swizzle = rest
        columns, rows, heads = box if len(box) == 3 else (*box, 1)
        return ["m", TENSORS.index(value), columns, rows, heads, ["none", "32B", "64B", "128B"].index(swizzle)]
    return ["n", value]
def told(row):
    try:
        launches, workspace = plan(**row)
    except ValueError:
        return "refused"
    return {
        "launches": [
            [ENTRIES.index(l.entry), *l.grid, *l.block, l.shared_bytes, *(l.cluster or (0, 0, 0)),
             *(TENSORS.index(name) for name in l.l2_persist), *(n for a in l.arguments for n in numbers(a))]
            for l in launches
        ],
        "workspace": list(workspace.values()),
    }
print(json.dumps([told(row) for row in ${JSON.stringify(rows)}]))
`),
  );
}

/**
 * The output of each kernel's plan in C++. All plans are compiled as one program, so that the compiler reads the
 * standard library only once.
 */
const cppPrinted = (() => {
  let printed: Record<string, unknown> | undefined;
  return (): Record<string, unknown> =>
    (printed ??= JSON.parse(cpp(kernels.map(cppNamespace).join('\n') + CPP_MAIN)) as Record<string, unknown>);
})();

const CPP_MAIN = `
#include <cstdio>
int main() {
${kernels.map(({ id }, index) => `  printf("%s\\"${id}\\":", ${index} ? "," : "{"), k${index}::print();`).join('\n')}
  printf("}");
}
`;

/** A kernel's plan and the code that prints it, in a namespace. The includes are outside of it. */
function cppNamespace(kernel: (typeof kernels)[number], index: number): string {
  const lines = cppPrints(kernel).split('\n');
  const includes = lines.filter((line) => line.startsWith('#include'));
  const others = lines.filter((line) => !/^#(include|pragma once)/.test(line));
  return [...includes, `namespace k${index} {`, ...others, '}'].join('\n');
}

function cppPrints({ manifest, parameters }: (typeof kernels)[number]): string {
  const rows = shapes.map(
    ({ batch, heads, sequenceLength, headDim, causal }) =>
      `{${batch}, ${heads}, ${sequenceLength}, ${headDim}, ${Number(causal)}}`,
  );
  return `#include <cstdio>
${cppPlan(manifest, parameters)}
inline void print() {
  const long long rows[][5] = {${rows.join(', ')}};
  const char* comma = "";
  printf("[");
  for (auto& row : rows) {
    printf("%s", comma), comma = ",";
    try {
      const FcPlan plan = fc_plan(row[0], row[1], row[2], row[3], row[4] != 0);
      printf("{\\"launches\\":[");
      const char* next = "";
      for (auto& l : plan.launches) {
        printf("%s[%d", next, l.entry), next = ",";
        for (unsigned each : l.grid) printf(",%u", each);
        for (unsigned each : l.block) printf(",%u", each);
        printf(",%u", l.shared_bytes);
        for (unsigned each : l.cluster) printf(",%u", each);
        for (int each : l.l2_persist) printf(",%d", each);
        for (auto& a : l.arguments) {
          if (a.kind == FcArgument::TENSOR) printf(",\\"t\\",%d", a.index);
          else if (a.kind == FcArgument::WORKSPACE) printf(",\\"w\\",%d", a.index);
          else if (a.kind == FcArgument::TENSOR_MAP) printf(",\\"m\\",%d,%u,%u,%u,%d", a.index, a.box[0], a.box[1], a.box[2], a.swizzle);
          else printf(",\\"n\\",%.17g", a.value);
        }
        printf("]");
      }
      printf("],\\"workspace\\":[");
      next = "";
      for (size_t each : plan.workspace) printf("%s%zu", next, each), next = ",";
      printf("]}");
    } catch (const std::invalid_argument&) {
      printf("\\"refused\\"");
    }
  }
  printf("]");
}
`;
}

describe.each(kernels)('$id', (kernel) => {
  const expected = shapes.map((shape) => wanted(kernel.manifest, kernel.parameters, shape));

  pythonTest('Python plans the same launches as the runner, and refuses the same shapes', () => {
    const runners = cases.map((each) => wanted(kernel.manifest, kernel.parameters, each));
    expect(pythonPrints(kernel, cases)).toEqual(runners);
  });

  test('C++ plans the same launches as the runner', { timeout: 180_000 }, () => {
    expect(cppPrinted()[kernel.id]).toEqual(expected);
  });

  test('the kernel takes some of the shapes and refuses others, so that both paths are tested', () => {
    const refused = expected.filter((each) => each === 'refused').length;
    expect(refused, shapes.map(formatShape).join(' ')).toBeGreaterThan(0);
    expect(refused).toBeLessThan(shapes.length);
  });
});

pythonTest.each([
  ['decode_hopper', ['B=2,H=8,Hkv=2,Skv=512,D=64', 'B=3,H=40,Hkv=8,Skv=700,D=128,S=4,window=64', 'B=1,H=8,Skv=9,D=96']],
  ['decode_mma', ['B=2,H=8,Hkv=2,Skv=512,D=64', 'B=64,H=32,Hkv=8,Skv=4096,D=128,S=4,window=64', 'B=1,H=8,Skv=9,D=96']],
  [
    'decode_paged',
    ['B=2,H=8,Hkv=2,Skv=500,page=16,D=64', 'B=1,H=4,Skv=9,page=8,D=32,softcap=20', 'B=3,H=8,Hkv=8,Skv=64,page=64,D=48'],
  ],
  ['varlen_rows', ['B=4,T=2048,H=8,Hkv=2,D=64', 'B=1,T=7,H=3,D=64,causal=1,window=3', 'B=1,T=7,H=3,D=40']],
  ['backward_hopper', ['2x8x512x64', '1x8x300x128,Hkv=2,Skv=1000,causal=2', '1x8x128x96']],
  ['backward_mma', ['2x8x512x64c', '1x8x300x256,Hkv=2,Skv=1000,causal=1', '1x8x128x96']],
  ['gqa_rows', ['2x8x512x64', '2x8x512x64,Hkv=2,Skv=700,causal=2,window=64', '2x8x512x128']],
])('for %s, Python plans the same launches as the runner', (id, texts) => {
  const path = join(ROOT, 'examples/kernels', id, 'kernel.yaml');
  const manifest = parseManifest(readFileSync(path, 'utf8'), path);
  const { parameters } = resolveVariant(manifest, {}, undefined);
  const of = texts.map(parseShape);
  const runners = of.map((each) => wanted(manifest, parameters, each));
  expect(pythonPrints({ manifest: manifestOfVariant(manifest, parameters), parameters }, of)).toEqual(runners);
  expect(runners.map((each) => each === 'refused')).toEqual([false, false, true]);
});

pythonTest('random expressions have the value of `evaluate` in Python and in C++', { timeout: 60_000 }, () => {
  const { expression } = fc.letrec((tie) => ({
    expression: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.nat(1000).map(String),
      fc.constantFrom('S', 'D', '0', '2.5'),
      fc
        .tuple(
          tie('expression'),
          fc.constantFrom('+', '-', '*', '/', '%', '<', '<=', '>', '>=', '==', '!=', '&&', '||'),
          tie('expression'),
        )
        .map(([a, operator, b]) => `(${String(a)} ${operator} ${String(b)})`),
      fc
        .tuple(fc.constantFrom('ceil', 'floor', '!', '-', '+'), tie('expression'))
        .map(([name, a]) => `${name}(${String(a)})`),
      fc
        .tuple(fc.constantFrom('min', 'max'), tie('expression'), tie('expression'))
        .map(([name, a, b]) => `${name}(${String(a)}, ${String(b)})`),
      fc
        .tuple(tie('expression'), tie('expression'), tie('expression'))
        .map(([a, b, c]) => `(${String(a)} ? ${String(b)} : ${String(c)})`),
    ),
  }));
  const scope = { S: 113, D: 64 };
  const texts = fc
    .sample(
      expression.filter((text) => String(text).length <= 400),
      { numRuns: 400, seed: 14 },
    )
    .map(String);
  const expected = texts.map((text) => {
    try {
      return evaluate(parseExpression(text), scope);
    } catch {
      return 'not finite';
    }
  });
  const inPython = texts.map((text) => expressionCode(parseExpression(text), PYTHON));
  const printed = python(`${IMPORTS}${PYTHON_HELPERS}
S, D = 113.0, 64.0
values = [${inPython.join(',\n')}]
print(json.dumps([v if math.isfinite(v) else "not finite" for v in values]))
`);
  expect((JSON.parse(printed) as unknown[]).map(withoutSign)).toEqual(expected.map(withoutSign));
  const inCpp = texts.map((text) => expressionCode(parseExpression(text), CPP));
  const told = cpp(`#include <cmath>
#include <cstdio>
${CPP_HELPERS}
int main() {
  const double v_S = 113, v_D = 64;
  (void)v_S, (void)v_D;
  const double values[] = {${inCpp.join(',\n')}};
  const char* comma = "[";
  for (double value : values) {
    if (std::isfinite(value)) printf("%s%.17g", comma, value);
    else printf("%s\\"not finite\\"", comma);
    comma = ",";
  }
  printf("]");
}
`);
  expect((JSON.parse(told) as unknown[]).map(withoutSign)).toEqual(expected.map(withoutSign));
});

/** -0 becomes 0, because no launch depends on the difference. */
const withoutSign = (value: unknown): unknown => (value === 0 ? 0 : value);

test("kernels that need initial values are exported only to Python; kernels in other dtypes and the repository's kernels are exported to all formats", () => {
  const foreign = (id: string, format: ExportFormat = 'hf'): string | undefined => {
    const path = join(ROOT, 'test/fixtures/foreign', id, 'kernel.yaml');
    return exportProblem(parseManifest(readFileSync(path, 'utf8'), path), format);
  };
  expect([
    foreign('flash_attention_minimal'),
    foreign('flash_attention_minimal', 'torch'),
    foreign('bf16_inline_ptx'),
    foreign('half2_cooperative'),
    ...new Set(kernels.map(({ manifest }) => exportProblem(manifest, 'hf'))),
  ]).toEqual([
    expect.stringContaining('O, l, m must have initial values before each launch') as string,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

pythonTest("the plan of a kernel in Triton's PTX passes its null pointers", () => {
  const path = join(ROOT, 'examples/kernels/triton_attention/kernel.yaml');
  const manifest = parseManifest(readFileSync(path, 'utf8'), path);
  const taken = cases.filter((each) => each.headDim === 64);
  const own = pythonPrints({ manifest, parameters: {} }, taken);
  expect(own).toEqual(taken.map((each) => wanted(manifest, {}, each)));
  expect(JSON.stringify(own)).toContain('["n",null,"n",null]'.slice(1, -1));
});

test.each([
  ['{ int64: S }', 'int64'],
  ['{ struct: { bytes: 8, fields: { q: { at: 0, value: Q } } } }', 'struct'],
])('a kernel with an argument of kind %s is refused, because exported programs cannot pass it', (argument, kind) => {
  const path = join(ROOT, 'kernels/fa_v1_baseline/kernel.yaml');
  const written = edited(readFileSync(path, 'utf8'), 'arguments: [Q,', `arguments: [${argument},`);
  expect(exportProblem(parseManifest(written, path), 'torch')).toMatch(
    new RegExp(`^fa_v1_baseline can't be exported: its launches pass ${kind}, and exports pass tensors`),
  );
});

test('a kernel whose entry is spelled as a C++ name is refused, because callers load it by its symbol', () => {
  const path = join(ROOT, 'kernels/fa_v1_baseline/kernel.yaml');
  const written = edited(readFileSync(path, 'utf8'), /entry: \w+/, 'entry: "fwd<64, true>"');
  expect(exportProblem(parseManifest(written, path), 'torch')).toMatch(
    /^fa_v1_baseline can't be exported: .* kernel\.yaml spells fwd<64, true> in C\+\+; give the name/,
  );
});

test("entries of a Triton kernel may have constexprs of their own, as in Triton's tutorial", () => {
  const path = join(ROOT, 'test/fixtures/triton/tutorial/kernel.yaml');
  const manifest = parseManifest(readFileSync(path, 'utf8'), path);
  expect(manifest.launches.map(({ entry }) => entry)).toEqual(['_attn_fwd[STAGE=3]', '_attn_fwd[STAGE=1]']);
  expect(exportProblem(manifest, 'torch')).toBeUndefined();
});

test('a kernel that writes an optional output is exported to PyTorch, but refused by the formats in C++', () => {
  const path = join(ROOT, 'kernels/fa_v1_baseline/kernel.yaml');
  const written = edited(readFileSync(path, 'utf8'), /arguments: \[([^\]]*)\bO\b/, 'arguments: [$1O, LSE');
  expect(exportProblem(parseManifest(written, path), 'torch')).toBeUndefined();
  expect(exportProblem(parseManifest(written, path), 'hf')).toBe(
    "fa_v1_baseline can't be exported: it writes LSE, which the callers of exports do not pass",
  );
});

test.each<
  [
    forward: string,
    parameters: Record<string, number>,
    backward: string,
    format: ExportFormat,
    reason: RegExp | undefined,
  ]
>([
  ['kernels/flashcore_v12', { WRITE_LSE: 1 }, 'examples/kernels/backward_hopper', 'torch', undefined],
  ['kernels/flashcore_v12', { WRITE_LSE: 1 }, 'examples/kernels/backward_mma', 'wheel', undefined],
  ['examples/kernels/gqa_rows', { WRITE_LSE: 1 }, 'examples/kernels/backward_rows', 'torch', undefined],
  ['kernels/flashcore_v12', {}, 'examples/kernels/backward_hopper', 'torch', /which reads LSE: .* --set WRITE_LSE=1$/],
  [
    'kernels/flashcore_v12',
    {},
    'kernels/flashcore_v12',
    'torch',
    /it computes attention; choose a kernel of attention_backward$/,
  ],
  [
    'kernels/flashcore_v12',
    { WRITE_LSE: 1 },
    'examples/kernels/backward_hopper',
    'hf',
    /only --torch and --wheel have one/,
  ],
  ['examples/kernels/varlen_rows', {}, 'examples/kernels/backward_hopper', 'torch', /only .* for attention$/],
  [
    'kernels/flashcore_v12',
    { WRITE_LSE: 1, BSHD: 1 },
    'examples/kernels/backward_hopper',
    'torch',
    /: Q has a different order in memory than in flashcore_v12; choose variants of the same layout/,
  ],
])(
  'exports %s with %o and the backward pass %s as %s, or gives the reason why not',
  (forward, parameters, backward, format, reason) => {
    const [first, second] = [forward, backward].map((each) => {
      const manifest = parseManifest(readFileSync(join(ROOT, each, 'kernel.yaml'), 'utf8'), join(ROOT, each));
      return manifestOfVariant(manifest, resolveVariant(manifest, each === forward ? { parameters } : {}).parameters);
    });
    const found = pairProblem(first!, second!, format);
    if (reason === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(reason);
  },
);

test.each<[kernel: string, format: ExportFormat, reason: string | undefined, parameters?: Record<string, number>]>([
  ['rmsnorm', 'torch', undefined],
  ['backward_rows', 'wheel', undefined],
  ['mla_rows', 'torch', "mla_rows can't be exported: no input has the dimension Skv, so that a call does not say it"],
  [
    'varlen_rows',
    'hf',
    "varlen_rows can't be exported: it computes attention_varlen, and this format is for attention: --torch and --wheel export any problem",
  ],
  ['gqa_rows', 'hf', undefined],
  [
    'gqa_rows',
    'hf',
    "gqa_rows can't be exported: it writes LSE, which the callers of exports do not pass",
    { WRITE_LSE: 1 },
  ],
  ['decode_mma', 'torch', undefined],
  ['decode_paged', 'wheel', undefined],
  ['triton_attention', 'wheel', undefined],
  [
    'triton_attention',
    'kernelbench',
    "triton_attention can't be exported: its source is attention.ptx, and this format hands on CUDA C++: --torch and --wheel export machine code",
  ],
  ['../../kernels/flashcore_v12', 'torch', undefined, { BSHD: 1 }],
  [
    '../../kernels/flashcore_v12',
    'hf',
    "flashcore_v12 can't be exported: Q, K, V, O have their own order in memory, and callers of this format use the problem's order: --torch and --wheel export any layout; or choose a variant without layouts",
    { BSHD: 1 },
  ],
])('exports %s as %s, or gives the reason why not: %s', (kernel, format, reason, parameters = {}) => {
  const path = join(ROOT, 'examples/kernels', kernel, 'kernel.yaml');
  const manifest = parseManifest(readFileSync(path, 'utf8'), path);
  const resolved = resolveVariant(manifest, { parameters }).parameters;
  expect(exportProblem(manifestOfVariant(manifest, resolved), format)).toBe(reason);
});

test.each([
  ['576', '576'],
  ['Dv', '512'],
  ['Dv + 64', '512 + 64'],
  ['2 * Dv', '*'],
])('with the default %s for its axis, a dimension is %s if the kernel does not use the axis', (text, dim) => {
  const path = join(ROOT, 'examples/kernels/mla_rows/kernel.yaml');
  const manifest = parseManifest(readFileSync(path, 'utf8'), path);
  const defaults = manifest.problem.defaults.map((axis) =>
    axis.name === 'D' ? { ...axis, default: { ...axis.default, text } } : axis,
  );
  const { tensors } = operatorOf({ ...manifest, problem: { ...manifest.problem, defaults } }, 'fp16');
  expect(tensors.find(({ name }) => name === 'KV')?.dims).toEqual(['*', 'page', dim]);
});
