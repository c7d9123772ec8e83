import { afterEach, expect, test } from 'vitest';
import type { ProblemCase } from '@flashcore/shared/kernels';
import { endReference, limitOf, ownReference } from './own-reference.ts';

const CASE: ProblemCase = {
  problem: 'doubled',
  operation: 'own',
  operands: { operands: {}, tables: {} },
  dtype: 'fp16',
  values: { N: 2 },
  flops: 2,
  bytes: 8,
  symmetries: [],
  tensors: [
    { name: 'X', direction: 'in', role: 'v', dims: [2], dtype: 'fp16' },
    { name: 'Y', direction: 'out', role: 'v', dims: [2], dtype: 'fp16' },
  ],
};

// The case takes 4 + 40 + 4 + 3 * 52 bytes and X takes 12. The double 2 ends with the byte 0x40.
const SEVERAL = String.raw`head -c 216 >/dev/null; head -c 23 /dev/zero; printf '\100\n'; cat`;
// Values take 4 + 40 bytes, the number of tensors 4, each tensor 52, and X itself 4.
const READ = 'head -c 156 >/dev/null';
const UNTIL_END = '[ "$(wc -c)" -eq 0 ]';

afterEach(endReference);

const SHELL = { program: '/bin/sh', env: { PATH: '/usr/bin:/bin' } };
const asked = (script: string) =>
  ownReference({ ...SHELL, args: ['-c', script] }, CASE, {
    X: Uint16Array.of(0x3c00, 0x4000),
  });

test('ownReference() sends the cases that reference_main.cpp reads and returns its doubles', async () => {
  const script = `${READ}; head -c 16 /dev/zero; echo; ${READ}; head -c 15 /dev/zero; printf '\\100\\n'; ${UNTIL_END}`;
  expect(await asked(script)).toEqual(new Map([['Y', { want: Float64Array.of(0, 0) }]]));
  // The same process answers the second case.
  expect(await asked(script)).toEqual(new Map([['Y', { want: Float64Array.of(0, 2) }]]));
});

test('ownReference() keeps no process without a box, where the end of a candidate would kill it', async () => {
  const executor = { ...SHELL, args: ['-c', `${READ}; head -c 16 /dev/zero; echo; ${READ}`], mark: 'FLASHCORE_X=1' };
  const zeros = new Map([['Y', { want: new Float64Array(2) }]]);
  for (const inputs of [{ X: Uint16Array.of(1, 2) }, { X: Uint16Array.of(3, 4) }])
    expect(await ownReference(executor, CASE, inputs)).toEqual(zeros);
});

test('ownReference() starts another process after one that gave too little', async () => {
  const script = `${READ}; head -c 16 /dev/zero; echo; ${READ}; exit 3`;
  const zeros = new Map([['Y', { want: new Float64Array(2) }]]);
  expect(await asked(script)).toEqual(zeros);
  await expect(asked(script)).rejects.toThrow(/gave 0 of 16 bytes and ended with exit status 3;/);
  expect(await asked(script)).toEqual(zeros);
});

test('ownReference() reads several outputs one after another, and sends int32 inputs', async () => {
  const executor = { ...SHELL, args: ['-c', SEVERAL] };
  const several: ProblemCase = {
    ...CASE,
    tensors: [
      { name: 'X', direction: 'in', role: 'v', dims: [3], dtype: 'int32' },
      { name: 'Y', direction: 'out', role: 'v', dims: [2], dtype: 'fp16' },
      { name: 'Z', direction: 'out', role: 'v', dims: [1], dtype: 'fp32' },
    ],
  };
  expect(await ownReference(executor, several, { X: Uint32Array.of(1, 2, 3) })).toEqual(
    new Map([
      ['Y', { want: Float64Array.of(0, 0) }],
      ['Z', { want: Float64Array.of(2) }],
    ]),
  );
});

test.each([
  [
    'ends with a status other than 0',
    `${READ}; echo "no such axis" >&2; exit 3`,
    /gave 0 of 16 bytes and ended with exit status 3: no such axis/,
  ],
  [
    'writes too few bytes',
    `${READ}; head -c 8 /dev/zero`,
    /gave 8 of 16 bytes and ended with exit status 0; correct it, then run fa-tui problem check doubled$/,
  ],
  [
    'writes too many bytes',
    `${READ}; head -c 100000000 /dev/zero`,
    /more than 16 bytes and ended with (SIGKILL|SIGPIPE|exit status).*neither fork nor write/,
  ],
  [
    'writes one byte too many',
    `${READ}; head -c 17 /dev/zero; cat`,
    /more than 16 bytes and ended with (SIGKILL|SIGPIPE|exit status).*neither fork nor write/,
  ],
  [
    'gives all outputs and then no newline',
    `${READ}; head -c 16 /dev/zero; exit 0`,
    /gave 16 of 16 bytes and ended with exit status 0; correct it \(all of its outputs came, but it did not end: it must start no/,
  ],
  ['does not read its input', 'exit 0', /gave 0 of 16 bytes/],
  ['is killed', `${READ}; kill -SEGV $$`, /ended with SIGSEGV/],
  ['writes too much to stderr', `${READ}; head -c 100000 /dev/zero | tr "\\0" x >&2; exit 1`, /: x{4096}; correct it/],
])('ownReference() throws when a reference %s', async (_, script, message) => {
  await expect(asked(script)).rejects.toThrow(message);
});

test('ownReference() ends a reference that hangs, at the limit that its problem declares', async () => {
  const hangs = ownReference(
    { ...SHELL, args: ['-c', UNTIL_END] },
    { ...CASE, referenceLimitS: 1 },
    { X: new Uint16Array(2) },
  );
  await expect(hangs).rejects.toThrow(
    /gave 0 of 16 bytes and ended with SIGKILL, after the limit of 1 s \(limit_s under reference in problem.yaml/,
  );
});

test('limitOf() grows with the case, up to two minutes', () => {
  const cases = [CASE, { ...CASE, flops: 1e9, bytes: 2e6 }, { ...CASE, flops: 2 * 2048 ** 3 }];
  expect(cases.map((each) => limitOf(each))).toEqual([21, 42, 120]);
  expect(limitOf(CASE, { startsSlowly: true })).toBe(61);
});

test('ownReference() throws when the program does not exist', async () => {
  const executor = { program: '/nonexistent/reference', args: [], env: {} };
  await expect(ownReference(executor, CASE, { X: new Uint16Array(2) })).rejects.toThrow(
    /gave 0 of 16 bytes and ended with spawn .*ENOENT/,
  );
});
