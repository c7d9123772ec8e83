/**
 * Problems of KernelBench, GPU MODE and SOL-ExecBench: run in a sandbox, imported, and a kernel judged by one. Needs
 * PyTorch.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { edited, missing } from '@flashcore/shared/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { Home, ROOT } from '../support/home.ts';

const LIMIT_MS = 900_000;
const home = new Home({ FLASHCORE_PYTHON: '/usr/bin/python3' });
// The first test that runs makes the folders: if all are skipped, nothing would remove them.
let repository: string;
const hostFolder = join(tmpdir(), `fc-host-${process.pid}`);
const outside = join(hostFolder, 'outside');
afterAll(async () => {
  rmSync(hostFolder, { recursive: true, force: true });
  await home[Symbol.asyncDispose]();
});

interface ProgramParts {
  init?: string;
  inputs?: string;
  top?: string;
}

const program = (forward: string, more: ProgramParts = {}): string => `
import torch
import torch.nn as nn
${more.top ?? ''}
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        ${more.init ?? 'pass'}
    def forward(self, x):
        ${forward}
batch_size = 64
dim = 2 * 128
def get_inputs():
    return [${more.inputs ?? 'torch.rand(batch_size, dim)'}]
def get_init_inputs():
    return []
`;

const PROGRAMS: Readonly<Record<string, string>> = {
  '19_ReLU': program('return torch.relu(x)'),
  '20_Linear': program('return self.gemm(x), torch.sigmoid(x)', { init: 'self.gemm = nn.Linear(dim, 24)' }),
  '30_Pooled': program('return nn.functional.max_pool1d(x.unsqueeze(1), 11, 3).squeeze(1)'),
  '40_Dropout': program('return nn.functional.dropout(x)'),
  '41_Drawn': program('return x * self.drawn', { init: 'self.drawn = torch.rand(dim)' }),
  '42_State': program('self.calls += 1; return x * self.calls', { init: 'self.calls = 0' }),
  '43_Classes': program('return x.argmax(1)'),
  '44_Integers': program('return x * 1.0', { inputs: 'torch.randint(0, 5, (batch_size, dim))' }),
  '45_Number': program('return x * 1.0', { inputs: 'torch.rand(batch_size, dim), 3' }),
  '46_Logarithm': program('return torch.log(-x * x)'),
  '47_Literals': program('return x * 2', { inputs: 'torch.rand(4, 4)' }),
  '50_Writer': program('return x * 2', { top: `open(${JSON.stringify(outside)}, "w")` }),
  '51_Network': program('return x * 2', { top: 'import socket; socket.create_connection(("127.0.0.1", 9))' }),
  '52_Killer': program('return x * 2', { top: 'import os; os._exit(0)' }),
  '53_Liar': program('return x * 2', {
    top: 'import os\nfor fd in range(3, 30):\n    try: os.write(fd, b"{}")\n    except OSError: pass\nos._exit(0)',
  }),
  '54_Memory': program('return x * 2', { top: 'held = bytearray(2 ** 40)' }),
  // Each way to start a process or to signal another one is tried once. If one worked, the other processes would sleep.
  '55_Parent': program('return torch.relu(x)', {
    top: `import ctypes, os, subprocess, time
me, libc = os.getpid(), ctypes.CDLL(None)
def started(way):
    try:
        number = way()
    except OSError:
        return False
    if os.getpid() != me:
        time.sleep(20)
        os._exit(0)
    return number != -1
ways = [os.fork, lambda: os.posix_spawn("/bin/true", ["true"], {}), lambda: subprocess.Popen(["/bin/true"]).pid,
        lambda: libc.fork(), lambda: libc.syscall(57), lambda: libc.syscall(56, 17, 0, 0, 0, 0), lambda: libc.syscall(435, 0, 88),
        lambda: os.kill(os.getppid(), 0), lambda: os.kill(-1, 0), lambda: libc.syscall(234, os.getppid(), os.getppid(), 0),
        lambda: os.pidfd_open(os.getppid()), lambda: os.sched_setaffinity(os.getppid(), [0]) or 0]
worked = [str(index) for index, way in enumerate(ways) if started(way)]
if worked:
    raise RuntimeError("worked: " + ", ".join(worked))
os.kill(me, 0)`,
  }),
  // 2^7 processes if it were not stopped, each in a session of its own.
  '56_Bomb': program('return x * 2', {
    top: 'import os, time\nfor _ in range(7):\n    os.fork()\n    os.setsid()\ntime.sleep(20)',
  }),
  '57_Shell': program('return x * 2', {
    top: `import os\nos.execv("/bin/sh", ["sh", "-c", "for n in 1 2 3 4 5 6 7; do sleep 20 & done; wait"])`,
  }),
  '58_Threads': program('return x * 2', {
    top: 'import threading, time\nthreading.stack_size(32768)\nfor _ in range(5000):\n    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\ntime.sleep(20)',
  }),
  // It closes its end of the answer's pipe and goes on.
  '59_Silent': program('return x * 2', { top: 'import os, time\nos.closerange(3, 30)\ntime.sleep(3)\nos._exit(7)' }),
};

/** The key and the reason of each program that is not imported. */
const REASONS: Readonly<Record<string, RegExp>> = {
  '40_Dropout': /Model: outputs differ from run to run with the same inputs and weights/,
  '41_Drawn': /Model: outputs differ from run to run with the same inputs and weights/,
  '42_State': /Model\.forward: a second call gives other outputs/,
  '43_Classes': /Model\.forward: output 0 is int64: must be a floating-point tensor/,
  '44_Integers': /get_inputs: input 0 has dtype int64: must be floating-point/,
  '45_Number': /get_inputs: input 1 is int: every input must be a tensor/,
  '46_Logarithm': /Model\.forward: outputs are not finite/,
  '47_Literals': /get_inputs: no integer at the top of the file changes the shape of an input/,
  '50_Writer': /FileNotFoundError|PermissionError|Read-only/,
  '51_Network': /PermissionError|ConnectionRefused|OSError/,
  '52_Killer': /ended with status 0 and without an answer/,
  '53_Liar': /axes: /,
  '54_Memory': /needs more than 8 GiB of memory/,
  '56_Bomb': /PermissionError: .*Operation not permitted/,
  '57_Shell': /ended with status 2 and without an answer/,
  '58_Threads': /starts more than 64 threads/,
  '59_Silent': /ended with status 7 and without an answer/,
};

/** A task of GPU MODE whose third tensor is the memory for the output. */
const TASKS: Readonly<Record<string, string>> = {
  scale: `
import torch
from task import input_t, output_t
from utils import make_match_reference
def generate_input(rows: int, cols: int, half: int, seed: int) -> input_t:
    gen = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(rows, cols, device="cuda", dtype=torch.float16, generator=gen)
    return x, torch.rand(rows, device=torch.device("cuda")), torch.empty(rows, cols // half, dtype=torch.float16).cuda()
def ref_kernel(data: input_t) -> output_t:
    x, factors, out = data
    out[...] = (x[:, : x.shape[1] // 2].float() * factors[:, None]).to(torch.float16)
    return out
check_implementation = make_match_reference(ref_kernel, rtol=1e-3)
`,
  counts: `
import torch
from utils import make_match_reference
def generate_input(rows, cols, half, seed):
    return torch.randint(0, 9, (rows, cols), device="cuda")
def ref_kernel(data):
    return data * 2
check_implementation = make_match_reference(ref_kernel)
`,
  judged: `
import torch
def generate_input(rows, cols, half, seed):
    return torch.rand(rows, cols)
def ref_kernel(data):
    return data * 2
def check_implementation(data, output):
    return True, ""
`,
  writer: `
open(${JSON.stringify(outside)}, "w")
`,
};
const TASK_REASONS: Readonly<Record<string, RegExp>> = {
  counts: /generate_input: input 0 is int64: must be float16, bfloat16, float32, float64/,
  judged: /check_implementation: judges answers by a program of its own/,
  writer: /reference\.py: (FileNotFoundError|PermissionError|OSError)/,
};
const TASK = `files: [{ name: reference.py, source: reference.py }]
lang: py
tests: [{ rows: 3, cols: 16, half: 2, seed: 1 }]
benchmarks: [{ rows: 64, cols: 128, half: 2, seed: 2 }]
`;

/** A definition of SOL-ExecBench with an axis that is an expression, a number and a cast. */
const DEFINITION = {
  name: 'row_norm',
  axes: {
    batch: { type: 'var' },
    width: { type: 'const', value: 48 },
    twice: { type: 'expr', expression: '2 * batch' },
  },
  inputs: {
    x: { shape: ['twice', 'width'], dtype: 'bfloat16' },
    weight: { shape: ['width'], dtype: 'float32' },
    eps: { shape: null, dtype: 'float32' },
  },
  outputs: { y: { shape: ['twice', 'width'], dtype: 'bfloat16' } },
  reference: `import torch
def run(x, weight, eps):
    assert x.shape[1] == 48
    rms = torch.rsqrt(x.to(torch.float32).pow(2).mean(-1, keepdim=True) + eps)
    return (x.to(torch.float32) * rms).to(torch.bfloat16) * weight
`,
};
const WORKLOADS = [3, 40].map((batch) =>
  JSON.stringify({ axes: { batch }, inputs: { eps: { type: 'scalar', value: 1e-5 } } }),
);

/** A product with weights in 8 bits and a scale for each row of them. */
const EIGHT_BITS = {
  name: 'scaled_matmul',
  axes: { M: { type: 'var' }, N: { type: 'const', value: 24 }, K: { type: 'const', value: 40 } },
  inputs: {
    a: { shape: ['M', 'K'], dtype: 'float8_e4m3fn' },
    b: { shape: ['N', 'K'], dtype: 'float8_e5m2' },
    scale: { shape: ['N'], dtype: 'float32' },
  },
  outputs: { c: { shape: ['M', 'N'], dtype: 'bfloat16' } },
  reference: `import torch
def run(a, b, scale):
    weights = b.to(torch.float32) * scale[:, None]
    return (a.to(torch.float32) @ weights.T).to(torch.bfloat16)
`,
};

const able = !missing('python3-torch') && !missing('bubblewrap');
const faTui = (...args: string[]) => home.faTui(args, { cwd: repository, timeoutMs: LIMIT_MS });

beforeAll(() => {
  mkdirSync(join(home.path, 'source/level1'), { recursive: true });
  for (const [name, text] of Object.entries(PROGRAMS))
    writeFileSync(join(home.path, 'source/level1', `${name}.py`), text);
  mkdirSync(hostFolder);
  repository = join(home.path, 'repository');
  mkdirSync(repository);
  writeFileSync(join(repository, 'flashcore.yaml'), 'problems: problems\n');
  cpSync(join(ROOT, 'examples/interop/kernelbench/kb_relu'), join(repository, 'kb_relu'), { recursive: true });
});

test.skipIf(!able)(
  'programs are imported, or refused with file and key, and cannot reach files or the network',
  { timeout: LIMIT_MS },
  () => {
    const { stdout, stderr, exitCode } = faTui(
      ...['problem', 'import', join(home.path, 'source'), '--from', 'kernelbench', '--to', 'problems', '--json'],
    );
    if (stdout === '') throw new Error(stderr);
    const { definitions } = JSON.parse(stdout) as { definitions: { name: string; reason?: string }[] };
    expect([exitCode, definitions.map(({ name }) => name)]).toEqual([0, Object.keys(PROGRAMS)]);
    for (const { name, reason } of definitions) {
      if (REASONS[name] === undefined) expect([name, reason]).toEqual([name, undefined]);
      else expect([name, reason]).toEqual([name, expect.stringMatching(REASONS[name])]);
      if (reason !== undefined) expect(reason.startsWith(`level1/${name}.py: `), reason).toBe(true);
    }
    expect(readdirSync(join(repository, 'problems'))).toEqual([
      'level1_19_relu',
      'level1_20_linear',
      'level1_30_pooled',
      'level1_55_parent',
    ]);
    expect(existsSync(outside)).toBe(false);
    const textOf = (id: string) => readFileSync(join(repository, 'problems', id, 'problem.yaml'), 'utf8');
    // floor((dim - 11) / 3) + 1
    expect(textOf('level1_30_pooled')).toContain('floor((dim + 1) / 3) - 3');
    for (const line of [
      'gemm_weight: { in: [ "24", dim ]',
      'out_0: { out: [ batch_size, "24" ]',
      'out_1: { out: [ batch_size, dim ]',
    ])
      expect(textOf('level1_20_linear')).toContain(line);
  },
);

test.skipIf(!able)(
  'tasks of GPU MODE and definitions of SOL-ExecBench are imported, and their cases find their mutants',
  { timeout: LIMIT_MS },
  () => {
    const source = join(home.path, 'others');
    for (const [name, text] of Object.entries(TASKS)) {
      mkdirSync(join(source, 'set', name), { recursive: true });
      writeFileSync(join(source, 'set', name, 'task.yml'), TASK);
      writeFileSync(join(source, 'set', name, 'reference.py'), text);
    }
    mkdirSync(join(source, 'L1/row_norm'), { recursive: true });
    writeFileSync(join(source, 'L1/row_norm/definition.json'), JSON.stringify(DEFINITION));
    writeFileSync(join(source, 'L1/row_norm/workload.jsonl'), WORKLOADS.join('\n'));
    mkdirSync(join(source, 'L1/scaled_matmul'), { recursive: true });
    writeFileSync(join(source, 'L1/scaled_matmul/definition.json'), JSON.stringify(EIGHT_BITS));
    writeFileSync(
      join(source, 'L1/scaled_matmul/workload.jsonl'),
      [5, 32].map((M) => JSON.stringify({ axes: { M }, inputs: {} })).join('\n'),
    );
    // A second try of this test finds the first try's folders.
    for (const id of ['set_scale', 'l1_row_norm', 'l1_scaled_matmul'])
      rmSync(join(repository, 'problems', id), { recursive: true, force: true });
    const imported = (form: string) => {
      const { stdout, stderr } = faTui('problem', 'import', source, '--from', form, '--to', 'problems', '--json');
      if (stdout === '') throw new Error(stderr);
      return (JSON.parse(stdout) as { definitions: { file: string; reason?: string }[] }).definitions;
    };
    const tasks = imported('gpumode');
    expect(tasks.map(({ file }) => file)).toEqual(
      ['counts', 'judged', 'scale', 'writer'].map((name) => `set/${name}/task.yml`),
    );
    for (const { file, reason } of tasks) {
      const wanted = TASK_REASONS[file.split('/')[1]!];
      expect([file, reason]).toEqual([file, wanted === undefined ? undefined : expect.stringMatching(wanted)]);
    }
    expect(imported('sol-execbench').map(({ file, reason }) => [file, reason])).toEqual([
      ['L1/row_norm/definition.json', undefined],
      ['L1/scaled_matmul/definition.json', undefined],
    ]);
    expect(existsSync(outside)).toBe(false);
    const textOf = (id: string) => readFileSync(join(repository, 'problems', id, 'problem.yaml'), 'utf8');
    for (const line of ['x: { in: [ rows, cols ]', 'factors: { in: [ rows ]', 'out: { out: [ rows, floor(cols / 2) ]'])
      expect(textOf('set_scale')).toContain(line);
    for (const line of ['x: { in: [ 2 * batch, "48" ], dtype: [ bf16 ]', 'weight: { in: [ "48" ], dtype: fp32'])
      expect(textOf('l1_row_norm')).toContain(line);
    for (const [id, dtype] of [
      ['set_scale', 'fp32'],
      ['l1_row_norm', 'bf16'],
      ['l1_scaled_matmul', 'e4m3'],
    ] as const) {
      const env = { FLASHCORE_PROBLEMS: join(repository, 'problems') };
      const args = ['problem', 'check', id, '--dtype', dtype];
      const { stdout, exitCode } = home.faTui(args, { cwd: repository, env, timeoutMs: LIMIT_MS });
      expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/the cases find all \d+ mutants/)]);
    }
  },
);

test.skipIf(!able)('a kernel is judged by the program, which runs in a sandbox', { timeout: LIMIT_MS }, () => {
  const right = faTui('verify', './kb_relu', '--seeds', '1');
  expect([right.exitCode, right.stdout]).toEqual([0, expect.stringContaining('PASSED')]);
  const file = join(repository, 'kb_relu/kb_relu.cu');
  writeFileSync(file, edited(readFileSync(file, 'utf8'), 'fmaxf(x[at], 0.0f)', 'fabsf(x[at])'));
  const wrong = faTui('verify', './kb_relu', '--seeds', '1');
  expect([wrong.exitCode, wrong.stdout]).toEqual([1, expect.stringContaining('WRONG RESULT')]);
});

test.skipIf(!able)('without PyTorch, the import and the check say that it is missing', { timeout: LIMIT_MS }, () => {
  const env = { FLASHCORE_PYTHON: '/bin/false' };
  const args = ['problem', 'import', join(home.path, 'source'), '--from', 'kernelbench', '--to', 'none'];
  const { exitCode, stderr } = home.faTui(args, { cwd: repository, env, timeoutMs: LIMIT_MS });
  expect([exitCode === 0, stderr]).toEqual([false, expect.stringMatching(/needs PyTorch.*FLASHCORE_PYTHON/s)]);
});
