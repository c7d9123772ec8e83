/**
 * Compares every PTX instruction of kernels/primitives with its definition and, on a GPU, with its emulation:
 *   node primitives.js                      on the emulator
 *   node primitives.js --ptx-engine compile on the emulator's PTX engine
 *   node primitives.js libcuda.so.1         on a GPU and on the emulator; uses the host's nvcc and C++ compiler
 * Options: --json FILE writes the report. Exit code 0: all agree, 1: some do not, 2: a wrong command line, 3: they
 * could not be run.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  compileImages,
  openBench,
  PTX_ENGINE,
  type Argument,
  type Bench,
  type Images,
  type PrimitiveCase,
} from './bench.ts';
import { readArguments, withPlainErrors } from './command-line.ts';
import { PRIMITIVES, PRIMITIVE_SUITE } from './primitives.ts';
import { repositoryRoot } from '../support/repository-root.ts';

const RUN_LIMIT_MS = 120_000;
const NOT_CARRIED = 'not carried: the emulator has no twin';

interface Agreement {
  agrees: boolean;
  /** The number of bytes that differ. If the rule is a bound: the largest error, as a fraction of the bound. */
  detail: string;
}

interface Row {
  name: string;
  instruction: string;
  rule: string;
  emulator: Agreement | string;
  gpu?: Agreement | string;
  gpuAgainstEmulator?: Agreement | string;
}

const USAGE = `flashcore-primitives [libcuda.so.1] [--ptx-engine LIBRARY] [--json FILE]
Holds every PTX instruction of kernels/primitives against its definition: on the CPU emulator, and on the GPU of a driver library if one is named. With --ptx-engine the emulator is its PTX engine, which has all of them: a libcuda_emu.so built with it, or "compile".`;
const { values, positionals } = readArguments(
  { json: { type: 'string' }, run: { type: 'string' }, 'ptx-engine': { type: 'string' } },
  USAGE,
);
if (values.run === undefined)
  process.exitCode = await withPlainErrors(positionals[0], () => compareAll(positionals[0], values['ptx-engine']));
else runAll(values.run);

async function compareAll(gpu: string | undefined, ptxEngine: string | undefined): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'fc-primitives-'));
  try {
    // The GPU comes first because it may be missing, and the emulator takes some seconds.
    const device = gpu === undefined ? undefined : await outputsOf(gpu, join(folder, 'gpu'));
    const emulator = await outputsOf(emulatorTarget(ptxEngine), join(folder, 'emulator'));
    const rows = PRIMITIVES.map((each) => rowOf(each, emulator.outputs, device?.outputs));
    const wrong = rows.filter(({ emulator: e, gpu: g, gpuAgainstEmulator: both }) =>
      [e, g, both].some((each) => typeof each === 'object' && !each.agrees),
    );
    for (const row of rows) {
      const right = Object.values(row).some((each) => typeof each === 'object') ? 'ok' : 'none';
      console.log(`${wrong.includes(row) ? 'not ok' : right}  ${row.name}: ${foundText(row)}`);
    }
    const untold = rows.filter(({ emulator: e, gpu: g }) => [e, g].every((each) => typeof each !== 'object'));
    console.log(
      `${rows.length - wrong.length - untold.length} agree, ${wrong.length} do not, ${untold.length} not carried, on ${[emulator, device].flatMap((each) => each?.device.name ?? []).join(' and ')}`,
    );
    if (values.json)
      writeFileSync(
        values.json,
        `${JSON.stringify({ emulator: emulator.device, ...(device && { gpu: device.device }), primitives: rows }, null, 1)}\n`,
      );
    return wrong.length === 0 ? 0 : 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function foundText(row: ReturnType<typeof rowOf>): string {
  const found = [
    ['emulator', row.emulator],
    ['gpu', row.gpu],
    ['gpu against emulator', row.gpuAgainstEmulator],
  ] as const;
  return found.flatMap(([what, value]) => (value === undefined ? [] : [`${what} ${textOf(value)}`])).join('; ');
}

function textOf(found: Agreement | string): string {
  return typeof found === 'string' ? found : found.detail;
}

function rowOf(primitive: PrimitiveCase, emulator: Outputs, gpu: Outputs | undefined): Row {
  const { name, instruction, rule } = primitive;
  const [ours, theirs] = [emulator[primitive.entry + name], gpu?.[primitive.entry + name]];
  return {
    name,
    instruction,
    rule: 'bits' in rule ? 'every bit' : rule.text,
    emulator: ours ? judge(primitive, ours) : NOT_CARRIED,
    ...(gpu && {
      gpu: theirs ? judge(primitive, theirs) : 'the device has no such instruction',
      ...(theirs && ours && { gpuAgainstEmulator: compare(primitive, theirs, ours) }),
    }),
  };
}

function judge({ rule }: PrimitiveCase, output: Uint8Array): Agreement {
  if ('bits' in rule) return sameBits(output, rule.bits);
  const error = rule.errorOf(output);
  return { agrees: error <= 1, detail: `largest error ${error.toPrecision(3)} of what is allowed` };
}

/**
 * Compares the GPU's output with the emulator's bit for bit. If the rule is a bound, it suffices that both outputs keep
 * within it; differing bytes are counted and reported.
 */
function compare({ rule }: PrimitiveCase, gpu: Uint8Array, emulator: Uint8Array): Agreement {
  const { agrees, detail } = sameBits(gpu, emulator);
  return 'bits' in rule
    ? { agrees, detail }
    : { agrees: rule.errorOf(gpu) <= 1 && rule.errorOf(emulator) <= 1, detail: `both within the bound; ${detail}` };
}

function sameBits(got: Uint8Array, want: Uint8Array): Agreement {
  const differing =
    got.length === want.length ? got.filter((byte, i) => byte !== want[i]).length : Math.max(got.length, want.length);
  return {
    agrees: differing === 0,
    detail: differing === 0 ? `all ${want.length} bytes equal` : `${differing} of ${want.length} bytes differ`,
  };
}

type Outputs = Record<string, Uint8Array>;

/**
 * Computes the outputs in a separate process, so that two driver libraries are never in one process, and a fault ends
 * only that process.
 */
async function outputsOf(target: string, folder: string): Promise<{ device: { name: string }; outputs: Outputs }> {
  await compileImages(target, repositoryRoot(), folder, PRIMITIVE_SUITE);
  const child = spawnSync(process.execPath, [fileURLToPath(import.meta.url), '--run', folder], {
    encoding: 'utf8',
    timeout: RUN_LIMIT_MS,
    killSignal: 'SIGKILL',
  });
  if (child.status !== 0)
    throw new Error(`The primitives did not run on ${target}: ${child.signal ?? ''} ${child.stderr}`);
  const { device, outputs } = JSON.parse(readFileSync(join(folder, 'outputs.json'), 'utf8')) as {
    device: { name: string };
    outputs: Record<string, string>;
  };
  return {
    device,
    outputs: Object.fromEntries(
      Object.entries(outputs).map(([key, text]) => [key, new Uint8Array(Buffer.from(text, 'base64'))]),
    ),
  };
}

function emulatorTarget(ptxEngine: string | undefined): string {
  if (ptxEngine === undefined) return 'emulator';
  return ptxEngine === 'compile' ? PTX_ENGINE : ptxEngine;
}

function runAll(folder: string): void {
  const images = JSON.parse(readFileSync(join(folder, 'images.json'), 'utf8')) as Images;
  const bench = openBench(images);
  const outputs = PRIMITIVES.filter(({ source }) => images.modules[source] !== undefined).map((each) => [
    each.entry + each.name,
    Buffer.from(runOne(bench, each)).toString('base64'),
  ]);
  writeFileSync(
    join(folder, 'outputs.json'),
    JSON.stringify({ device: bench.driver.facts, outputs: Object.fromEntries(outputs) as Record<string, string> }),
  );
}

function runOne(
  bench: Bench,
  { source, entry, threads, ctas, inputs, tensorMap, outputBytes }: PrimitiveCase,
): Uint8Array {
  const addresses = inputs.map((input) => bench.upload(input));
  const out = bench.upload(new Uint8Array(outputBytes).fill(0xee));
  const args = addresses.map((pointer, i): Argument =>
    tensorMap && i === 0 ? { tensorMap: { ...tensorMap, address: pointer } } : { pointer },
  );
  bench.enqueue(source, entry, [...args, { pointer: out }], { grid: [ctas ?? 1, 1, 1], block: [threads, 1, 1] });
  return bench.download(new Uint8Array(outputBytes), out);
}
