import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { inFull, missing, temporaryFolder } from '@flashcore/shared/testing';
import { expect, test } from 'vitest';
import { cubinEntries, cubinFault } from './cubin-source.ts';
import { cubinParameters } from './entry-parameters.ts';
import { addressBanks, stateInForeignCubin } from './kept-state.ts';
import { parsePtxasReport } from './ptxas-report.ts';
import { toolPath } from './toolchain.ts';

const NVCC = toolPath('nvcc') ?? 'nvcc';
const SOURCE = `__constant__ float table[4];
__device__ int counter;
struct Pair { float a, b, c; };
extern "C" __global__ void entry(const float* x, float* y, int n, Pair pair) {
  __shared__ float tile[64];
  tile[threadIdx.x & 63] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = tile[(threadIdx.x + 1) & 63] * pair.b + table[threadIdx.x & 3];
}
`;

/** A section of an ELF file. Without `content`, its header claims `bytes`, but the file does not contain them. */
interface Section {
  name: string;
  content?: Buffer;
  offset?: number;
  bytes?: number;
  flags?: number;
  type?: number;
}

/** An ELF file for CUDA with these sections after the table of names. */
function elf(sections: readonly Section[], { flags = 0x5a055a, abi = 7 } = {}): Buffer {
  const all = [{ name: '.shstrtab' }, ...sections];
  const names = Buffer.from(`\0${all.map(({ name }) => `${name}\0`).join('')}`, 'latin1');
  const bodies = [names, ...sections.map(({ content = Buffer.alloc(0) }) => content)];
  const headers = Buffer.alloc(64 * all.length);
  let [at, nameAt] = [64, 1];
  for (const [index, body] of bodies.entries()) {
    const { name, offset, bytes, flags: bits = 0, type = 1 }: Section = all[index]!;
    headers.writeUInt32LE(nameAt, 64 * index);
    headers.writeUInt32LE(type, 64 * index + 4);
    headers.writeBigUInt64LE(BigInt(bits), 64 * index + 8);
    headers.writeBigUInt64LE(BigInt(offset ?? at), 64 * index + 24);
    headers.writeBigUInt64LE(BigInt(bytes ?? body.length), 64 * index + 32);
    nameAt += name.length + 1;
    at += body.length;
  }
  const header = Buffer.alloc(64);
  Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0x33, abi]).copy(header);
  header.writeUInt16LE(2, 16);
  header.writeUInt16LE(190, 18);
  header.writeBigUInt64LE(BigInt(at), 40);
  header.writeUInt32LE(flags, 48);
  header.writeUInt16LE(64, 58);
  header.writeUInt16LE(all.length, 60);
  return Buffer.concat([header, ...bodies, headers]);
}

function changed(file: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(file);
  change(copy);
  return copy;
}

const text = (name: string): Section => ({ name: `.text.${name}`, flags: 6 });
const KERNEL = elf([text('entry')]);

test.each<[string, Buffer, string]>([
  ['a text file', Buffer.from('.version 8.7\n'.repeat(20)), 'must be a cubin (an ELF file for CUDA)'],
  ['an empty file', Buffer.alloc(0), 'must be a cubin'],
  ["an ELF file for the host's processor", changed(KERNEL, (file) => file.writeUInt16LE(62, 18)), 'must be a cubin'],
  ['a fat binary', Buffer.from([0x50, 0xed, 0x55, 0xba, 1, 0]), 'cuobjdump -xelf all'],
  ['a relocatable cubin', changed(KERNEL, (file) => file.writeUInt16LE(1, 16)), 'compile without -dc'],
  ['a cut-off cubin', KERNEL.subarray(0, -1), 'must have its section table inside the file'],
  ['a file that ends after the ELF header', KERNEL.subarray(0, 64), 'must have its section table inside the file'],
  [
    'a file without sections',
    changed(KERNEL, (file) => file.writeUInt16LE(0, 60)),
    'must have its section table inside',
  ],
  [
    'a section table beyond the end of the file',
    changed(KERNEL, (file) => file.writeBigUInt64LE(2n ** 63n, 40)),
    'must have its section table',
  ],
  [
    'a file without section names',
    changed(KERNEL, (file) => file.writeUInt16LE(9, 62)),
    'the table of names is absent',
  ],
  [
    'a section that reaches beyond the end of the file',
    elf([{ ...text('entry'), bytes: 2 ** 40 }]),
    'got ".text.entry" up to byte',
  ],
  [
    'a file with 900 overlapping sections',
    elf(Array.from({ length: 900 }, () => ({ name: '.nv.info.x', offset: 0, bytes: 5000 }))),
    'must have sections that do not overlap',
  ],
  [
    'a file whose symbols share a long name',
    elf([
      { name: '.symtab', content: Buffer.alloc(2 ** 20) },
      { name: '.strtab', content: Buffer.alloc(9000, 1) },
    ]),
    "bytes of symbols' names",
  ],
  [
    'a file with 20,000 sections',
    elf(Array.from({ length: 20_000 }, () => ({ name: '.x' }))),
    'must have at most 10000 sections',
  ],
  [
    'a file with 9,999 entries',
    elf(Array.from({ length: 9_999 }, (_, index) => text(`entry${index}`))),
    'must have at most 1000 entries and functions, got 9999',
  ],
  [
    'a cubin for another architecture',
    elf([text('entry')], { flags: 0x590559 }),
    'is built for sm_89, and this build is for sm_90a',
  ],
  ['a cubin for a newer major architecture', elf([text('entry')], { flags: 0xa006402, abi: 8 }), 'is built for sm_100'],
])('%s is refused', (_, file, words) => {
  expect(cubinFault(file, 'sm_90a')).toContain(words);
});

test('a cubin runs on the later minor versions of its compute capability', () => {
  const ampere = elf([text('entry')], { flags: 0xa005004, abi: 8 });
  expect(['sm_80', 'sm_89', 'sm_90'].map((arch) => cubinFault(ampere, arch) === undefined)).toEqual([
    true,
    true,
    false,
  ]);
});

test('a variable whose symbol was removed is found by its section, under any name', () => {
  const written = { flags: 3, type: 8, bytes: 4 };
  for (const name of ['.nv.global', '.nv.global.init', '.data', '.text.disguised'])
    expect(stateInForeignCubin(elf([text('entry'), { name, ...written }]))).toEqual([`section ${name} (4 bytes)`]);
  const own = [{ name: '.nv.shared.entry', ...written }, text('entry'), { name: '.nv.constant0.entry', flags: 2 }];
  expect(stateInForeignCubin(elf(own))).toEqual([]);
});

/** Compiles the source and returns the cubin's path and ptxas's report. */
function compiled(folder: string, arch: string, source: string): { path: string; report: string[] } {
  const path = join(folder, `${arch}.cubin`);
  writeFileSync(join(folder, 'kernel.cu'), source);
  const command = `"${NVCC}" -cubin -arch=${arch} -Xptxas -v -o "${path}" "${join(folder, 'kernel.cu')}" 2>&1`;
  return { path, report: execFileSync('sh', ['-c', command], { encoding: 'utf8' }).split('\n') };
}

test.skipIf(missing('nvcc')).each(inFull(['sm_80', 'sm_90'], (arch) => arch === 'sm_90'))(
  'entries, parameters and state of a cubin for %s are those that ptxas reports',
  (arch) => {
    using folder = temporaryFolder();
    const { path, report } = compiled(folder.path, arch, SOURCE);
    const file = readFileSync(path);
    expect(cubinFault(file, arch)).toBeUndefined();
    const [said] = parsePtxasReport(report);
    const [read, ...others] = cubinEntries(file, arch);
    expect(others).toEqual([]);
    expect(read).toMatchObject({
      entry: 'entry',
      registers: said!.registers,
      staticSmemBytes: said!.staticSmemBytes,
      stackBytes: said!.stackBytes,
    });
    expect(cubinParameters(path)).toEqual(new Map([['entry', [8, 8, 4, 12]]]));
    expect(stateInForeignCubin(file)).toEqual(['counter (4 bytes)']);
  },
);

/** The output of cuobjdump -sass for these instructions. */
const listingOf = (...instructions: string[]) => ({
  text: Buffer.from(instructions.map((each) => `        /*0010*/                   ${each} ;    /* 0x0 */\n`).join('')),
});

test.skipIf(missing('nvcc'))(
  'small variables whose address no instruction reads do not count as state that outlives a launch',
  () => {
    using folder = temporaryFolder();
    const cubinOf = (declaration: string, statement: string): Buffer => {
      const source = `${declaration}\nextern "C" __global__ void entry(long long* out) {\n${statement}\n}\n`;
      return readFileSync(compiled(folder.path, 'sm_90', source).path);
    };
    const unused = cubinOf('__device__ char text[11];', 'out[0] = 1;');
    expect([addressBanks(unused), stateInForeignCubin(unused)]).toEqual([new Set([4]), ['text (11 bytes)']]);
    const none = listingOf('LDC R1, c[0x0][0x28]', 'LDG.E.U8 R0, desc[UR4][R2.64]', 'LDC.S8 R2, c[0x3][R4]');
    expect(stateInForeignCubin(unused, none)).toEqual([]);
    for (const reads of [
      'LDC.64 R2, c[0x4][RZ]',
      'IADD3 R7, R0, c[0x4][0x0], RZ',
      'ULDC.64 UR4, c[0x4][0x0]',
      'LDC.64.ISL R2, c[0x0][R3]',
      'LDC R2, cx[UR4][0x0]',
    ])
      expect(stateInForeignCubin(unused, listingOf(reads)), reads).toEqual(['text (11 bytes)']);
    expect(stateInForeignCubin(unused, { missing: 'no cuobjdump' })).toEqual(['text (11 bytes)']);
    const large = cubinOf('__device__ char text[65];', 'out[0] = 1;');
    const reached = cubinOf('__device__ char cell; __device__ char* at = &cell;', 'out[0] = 1;');
    const heap = cubinOf('__device__ char text[11];', 'out[0] = (long long)malloc(8);');
    for (const file of [large, reached, heap]) {
      expect(addressBanks(file)).toBeUndefined();
      expect(stateInForeignCubin(file, none)).not.toEqual([]);
    }
  },
);

/** Numbers in [0, 1) from a seed: a linear congruential generator. */
function* numbers(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

test.skipIf(missing('nvcc'))(
  'a cubin with changed bytes is refused or read within the time limit, and never throws',
  () => {
    using folder = temporaryFolder();
    const { path } = compiled(folder.path, 'sm_90', SOURCE);
    const file = readFileSync(path);
    const altered = join(folder.path, 'altered.cubin');
    const table = Number(file.readBigUInt64LE(40));
    const outcomes = { refused: 0, read: 0 };
    for (let seed = 1; seed <= 300; seed += 1) {
      const random = numbers(seed);
      const next = (below: number): number => Math.floor(random.next().value * below);
      const copy = changed(file, (bytes) => {
        for (let change = next(6); change >= 0; change -= 1) {
          // A position in the ELF header, in the table of sections, or anywhere.
          const at = [next(64), table + next(file.length - table), next(file.length)][next(3)]!;
          bytes[at] = [0, 0xff, next(256)][next(3)]!;
        }
      }).subarray(0, next(8) === 0 ? next(file.length) : file.length);
      const began = performance.now();
      const fault = cubinFault(copy, 'sm_90');
      if (fault === undefined) {
        writeFileSync(altered, copy);
        cubinEntries(copy, 'sm_90');
        stateInForeignCubin(copy, listingOf('EXIT'));
        cubinParameters(altered);
      }
      outcomes[fault === undefined ? 'read' : 'refused'] += 1;
      expect(performance.now() - began, `seed ${seed}`).toBeLessThan(500);
    }
    expect(outcomes).toEqual({ refused: expect.any(Number) as number, read: expect.any(Number) as number });
    expect(Math.min(outcomes.refused, outcomes.read)).toBeGreaterThan(20);
  },
);

test('a cubin of 2 MiB is refused or read within the time limit', () => {
  const large = Buffer.alloc(2 ** 21, 0x41);
  const forms = [
    elf([
      { name: '.symtab', content: Buffer.alloc(2 ** 20) },
      { name: '.strtab', content: Buffer.alloc(2 ** 20, 1) },
    ]),
    elf([{ name: '.nv.info', content: large.fill(0x04) }, text('entry')]),
    elf(Array.from({ length: 9_000 }, (_, index) => ({ name: `.n${index}`, flags: 3, type: 8, bytes: 2 ** 40 }))),
  ];
  for (const file of forms) {
    // Processor time, because the machine may be busy.
    const before = process.cpuUsage();
    if (cubinFault(file, 'sm_90') === undefined) {
      cubinEntries(file, 'sm_90');
      stateInForeignCubin(file, listingOf('EXIT'));
    }
    const { user, system } = process.cpuUsage(before);
    expect((user + system) / 1_000).toBeLessThan(2_000);
  }
});
