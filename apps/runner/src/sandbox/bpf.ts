import { FIRST_UNKNOWN, SYSCALL_NUMBERS, type FilteredArch } from './syscall-numbers.ts';

/** Treatment of a system call: allowed, or failing with an error, perhaps depending on an argument's lower 32 bits. */
export type CallRule =
  | { does: 'allow' }
  | { does: 'fail'; errno: number }
  | { does: 'allow-values' | 'fail-values'; argument: number; values: readonly number[] }
  | { does: 'allow-without'; argument: number; bits: number };

/** Rules by system call name, and one for all other calls that Linux has. */
export interface CallFilter {
  rules: ReadonlyMap<string, CallRule>;
  otherwise: CallRule;
}

export const EPERM = 1;
export const ENOSYS = 38;

// linux/filter.h, linux/seccomp.h, linux/audit.h
const LOAD = 0x20;
const JUMP = 0x05;
const JUMP_IF_EQUAL = 0x15;
const JUMP_IF_AT_LEAST = 0x35;
const JUMP_IF_ANY_BIT = 0x45;
const RETURN = 0x06;
const ALLOW = 0x7fff0000;
const FAIL = 0x00050000;
const KILL_PROCESS = 0x80000000;
const NUMBER_AT = 0;
const ARCH_AT = 4;
const ARGUMENTS_AT = 16;
const AUDIT_ARCH: Readonly<Record<FilteredArch, number>> = { x64: 0xc000003e, arm64: 0xc00000b7 };
/** Calls of the x32 ABI have x86_64's architecture and numbers from here on. */
const X32_NUMBERS = 0x40000000;

interface Instruction {
  code: number;
  /** Number of instructions to skip if the condition is true (ifTrue) or false (ifFalse). */
  ifTrue?: number;
  ifFalse?: number;
  operand: number;
}

/** Call numbers from `from` up to the next span. */
interface Span {
  from: number;
  code: readonly Instruction[];
}

/**
 * Compiles a filter to the program that seccomp(2) loads and bubblewrap reads with --seccomp: 8 bytes per instruction.
 * A process of another architecture or one that makes an x32 call is killed. Calls newer than the table fail with
 * ENOSYS, so that libraries use their fallbacks. Errors: a name that no architecture has.
 */
export function compileFilter({ rules, otherwise }: CallFilter, arch: FilteredArch): Buffer {
  const spans: Span[] = [
    { from: 0, code: codeOf(otherwise) },
    { from: FIRST_UNKNOWN, code: codeOf({ does: 'fail', errno: ENOSYS }) },
  ];
  const numbers = SYSCALL_NUMBERS[arch];
  const ruled = [...rules].flatMap(([name, rule]): [number, CallRule][] => {
    const number = numbers.get(name);
    if (number !== undefined) return [[number, rule]];
    if (Object.values(SYSCALL_NUMBERS).some((all) => all.has(name))) return [];
    throw new Error(`A filter names a system call that the table has: "${name}" is not in it`);
  });
  for (const [number, rule] of ruled) spans.push({ from: number, code: codeOf(rule) });
  const has = new Set(ruled.map(([number]) => number));
  for (const number of has)
    if (number + 1 < FIRST_UNKNOWN && !has.has(number + 1)) spans.push({ from: number + 1, code: codeOf(otherwise) });
  if (arch === 'x64') spans.push({ from: X32_NUMBERS, code: [{ code: RETURN, operand: KILL_PROCESS }] });
  // Number 0 may have its own rule: the last of equal numbers wins.
  const ordered = [...new Map(spans.map((span) => [span.from, span])).values()].sort((a, b) => a.from - b.from);
  return encode([
    { code: LOAD, operand: ARCH_AT },
    { code: JUMP_IF_EQUAL, ifTrue: 1, operand: AUDIT_ARCH[arch] },
    { code: RETURN, operand: KILL_PROCESS },
    { code: LOAD, operand: NUMBER_AT },
    ...search(merged(ordered)),
  ]);
}

/** Merges neighbors with the same code, because most allowed calls have consecutive numbers. */
function merged(spans: readonly Span[]): Span[] {
  const kept: Span[] = [];
  for (const span of spans) if (JSON.stringify(kept.at(-1)?.code) !== JSON.stringify(span.code)) kept.push(span);
  return kept;
}

/**
 * A binary search, because the kernel runs it at each call. Conditional jumps reach 255 instructions, the
 * unconditional jump reaches all.
 */
function search(spans: readonly Span[]): Instruction[] {
  if (spans.length === 1) return [...spans[0]!.code];
  const middle = spans.length >> 1;
  const below = search(spans.slice(0, middle));
  return [
    { code: JUMP_IF_AT_LEAST, ifFalse: 1, operand: spans[middle]!.from },
    { code: JUMP, operand: below.length },
    ...below,
    ...search(spans.slice(middle)),
  ];
}

const allow: Instruction = { code: RETURN, operand: ALLOW };
const fail = (errno: number): Instruction => ({ code: RETURN, operand: FAIL | errno });
/**
 * Loads the lower half of an argument, because the kernel reads only that half of an int. Both architectures are
 * little-endian.
 */
const loadArgument = (index: number): Instruction => ({ code: LOAD, operand: ARGUMENTS_AT + 8 * index });

function codeOf(rule: CallRule): Instruction[] {
  switch (rule.does) {
    case 'allow':
      return [allow];
    case 'fail':
      return [fail(rule.errno)];
    case 'allow-values':
    case 'fail-values': {
      const [listed, others] = rule.does === 'allow-values' ? [allow, fail(EPERM)] : [fail(EPERM), allow];
      return [
        loadArgument(rule.argument),
        ...rule.values.flatMap((value) => [{ code: JUMP_IF_EQUAL, ifFalse: 1, operand: value }, listed]),
        others,
      ];
    }
    case 'allow-without':
      return [
        loadArgument(rule.argument),
        { code: JUMP_IF_ANY_BIT, ifFalse: 1, operand: rule.bits },
        fail(EPERM),
        allow,
      ];
  }
}

function encode(program: readonly Instruction[]): Buffer {
  const bytes = Buffer.alloc(program.length * 8);
  program.forEach(({ code, ifTrue = 0, ifFalse = 0, operand }, index) => {
    bytes.writeUInt16LE(code, index * 8);
    bytes.writeUInt8(ifTrue, index * 8 + 2);
    bytes.writeUInt8(ifFalse, index * 8 + 3);
    bytes.writeUInt32LE(operand, index * 8 + 4);
  });
  return bytes;
}
