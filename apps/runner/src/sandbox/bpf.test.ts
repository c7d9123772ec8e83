import { existsSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { compileFilter, type CallRule } from './bpf.ts';
import { CALL_FILTERS } from './call-filters.ts';
import { FIRST_UNKNOWN, isFilteredArch, SYSCALL_NUMBERS } from './syscall-numbers.ts';

const KINDS = ['compiler', 'executor', 'reference', 'gpu-worker'] as const;
const ARCHES = ['x64', 'arm64'] as const;
const AUDIT_ARCH = { x64: 0xc000003e, arm64: 0xc00000b7 };

interface Call {
  arch: number;
  number: number;
  args?: readonly number[];
}

/** Runs a program like the kernel, one instruction after the other (man 2 seccomp). */
function run(program: Buffer, { arch, number, args = [] }: Call): string {
  const data = new Map([
    [0, number],
    [4, arch],
    ...args.map((value, index): [number, number] => [16 + 8 * index, value]),
  ]);
  let accumulator = 0;
  for (let at = 0; ; at += 1) {
    const code = program.readUInt16LE(at * 8);
    const operand = program.readUInt32LE(at * 8 + 4);
    const jump = (holds: boolean): void => void (at += program.readUInt8(at * 8 + (holds ? 2 : 3)));
    if (code === 0x20) accumulator = data.get(operand) ?? 0;
    else if (code === 0x05) at += operand;
    else if (code === 0x15) jump(accumulator === operand);
    else if (code === 0x35) jump(accumulator >= operand);
    else if (code === 0x45) jump((accumulator & operand) !== 0);
    else if (code === 0x06) return ENDS.get(operand) ?? `errno ${operand - 0x50000}`;
    else throw new Error(`No instruction: ${code}`);
  }
}

const ENDS = new Map([
  [0x80000000, 'killed'],
  [0x7fff0000, 'made'],
]);

function wanted(rule: CallRule, args: readonly number[]): string {
  switch (rule.does) {
    case 'allow':
      return 'made';
    case 'fail':
      return `errno ${rule.errno}`;
    case 'allow-values':
      return rule.values.includes(args[rule.argument]!) ? 'made' : 'errno 1';
    case 'fail-values':
      return rule.values.includes(args[rule.argument]!) ? 'errno 1' : 'made';
    case 'allow-without':
      return (args[rule.argument]! & rule.bits) === 0 ? 'made' : 'errno 1';
  }
}

const INTERESTING = [
  0, 1, 2, 10, 15, 16, 17, 38, 40, 0x5401, 0x5412, 0x541c, 0x1200011, 0x10000011, 0x20000, 0x80000000,
];

test.each(KINDS.flatMap((kind) => ARCHES.map((arch) => [kind, arch] as const)))(
  'the program for a %s on %s treats every call as its table says',
  (kind, arch) => {
    const filter = CALL_FILTERS[kind];
    const program = compileFilter(filter, arch);
    const nameOf = new Map([...SYSCALL_NUMBERS[arch]].map(([name, number]) => [number, name]));
    const all = Array.from({ length: FIRST_UNKNOWN }, (_, number) => number).flatMap((number) =>
      INTERESTING.map((value) => ({ number, args: Array.from({ length: 6 }, () => value) })),
    );
    expect(all.map((call) => run(program, { arch: AUDIT_ARCH[arch], ...call }))).toEqual(
      all.map(({ number, args }) => wanted(filter.rules.get(nameOf.get(number) ?? '') ?? filter.otherwise, args)),
    );
    expect(program.length / 8).toBeLessThan(4096);
  },
);

test.each(KINDS)('a %s is killed by a call of another architecture or x32; newer calls fail (ENOSYS)', (kind) => {
  for (const arch of ARCHES) {
    const program = compileFilter(CALL_FILTERS[kind], arch);
    const here = AUDIT_ARCH[arch];
    expect(
      [0x40000003, AUDIT_ARCH[arch === 'x64' ? 'arm64' : 'x64'], 0].map((other) =>
        run(program, { arch: other, number: 0 }),
      ),
    ).toEqual(['killed', 'killed', 'killed']);
    expect([FIRST_UNKNOWN, 1000, 0x3fffffff].map((number) => run(program, { arch: here, number }))).toEqual(
      Array.from({ length: 3 }, () => 'errno 38'),
    );
    if (arch === 'x64')
      expect([0x40000000, 0x40000027, 0xffffffff].map((number) => run(program, { arch: here, number }))).toEqual(
        Array.from({ length: 3 }, () => 'killed'),
      );
  }
});

test('a system call name that no architecture has is refused, because it would forbid nothing', () => {
  expect(() =>
    compileFilter({ rules: new Map([['keyctrl', { does: 'fail', errno: 1 }]]), otherwise: { does: 'allow' } }, 'x64'),
  ).toThrow('A filter names a system call that the table has: "keyctrl" is not in it');
});

test("the table matches the numbers in this machine's headers", ({ skip }) => {
  const header = ['/usr/include/x86_64-linux-gnu/asm/unistd_64.h', '/usr/include/asm/unistd_64.h'].find((path) =>
    existsSync(path),
  );
  if (process.arch !== 'x64' || !isFilteredArch(process.arch) || header === undefined)
    return skip('no headers of x86_64 Linux');
  const known = SYSCALL_NUMBERS.x64;
  const theirs = [...readFileSync(header, 'utf8').matchAll(/^#define __NR_(\w+) (\d+)$/gm)].map(
    ([, name, number]) => [name!, Number(number)] as const,
  );
  expect(theirs.length).toBeGreaterThan(300);
  expect(theirs.filter(([name, number]) => number < FIRST_UNKNOWN && known.get(name) !== number)).toEqual([]);
});
