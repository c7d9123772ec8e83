import { create } from '@bufbuild/protobuf';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { ToleranceSchema, type Shape, type Tolerance } from '@flashcore/shared/contract';
import {
  formatShape,
  parseCase,
  parseCases,
  parseManifest,
  parseProblem,
  resolveVariant,
} from '@flashcore/shared/kernels';
import { REPOSITORY_ROOT } from '../testing/test-runner.ts';
import { caseSet, chooseShapes, defaultShapes } from './choose-shapes.ts';
import { chooseTolerance } from './phase-specs.ts';

test("a tolerance has a profile's name only with the profile's numbers: wider numbers are not called parity", () => {
  const cases = parseCases(readFileSync(`${REPOSITORY_ROOT}/kernels/cases.yaml`, 'utf8'), 'cases.yaml');
  const chosen = (asked: Partial<Omit<Tolerance, '$typeName'>>) =>
    chooseTolerance(create(ToleranceSchema, asked), { cases, dtype: 'fp16' });
  expect([
    chooseTolerance(create(ToleranceSchema, { profile: 'strict' }), { cases, dtype: 'bf16' }),
    chosen({ profile: 'strict' }),
    chosen({ profile: 'parity', absolute: 100 }),
    chosen({ profile: 'parity', absolute: 100, relative: 100 }),
    chosen({ absolute: 1, relative: 2 }),
    chosen({ profile: 'parity', absolute: 0.01 }),
  ]).toEqual([
    { profile: 'strict', absolute: 0.008, relative: 0.008 },
    { profile: 'strict', absolute: 0.001, relative: 0.001 },
    { absolute: 100, relative: 0.01 },
    { absolute: 100, relative: 100 },
    { absolute: 1, relative: 2 },
    { profile: 'parity', absolute: 0.01, relative: 0.01 },
  ]);
});

test.each([
  ['D == 128', ['1x1x64x128', '1x2x113x128c'], 'D=128'],
  ['S <= 40', ['1x1x32x64', '1x2x32x64c'], 'S=32'],
  ['S <= 20 && D == 96', ['1x1x16x96', '1x2x16x96c'], 'D=96, S=16'],
  ['D == 128 && causal == 0', ['1x1x64x128', '1x2x113x128c'], 'D=128'],
  ['D <= 32', ['1x1x64x32', '1x2x113x32c'], 'D=32'],
  ['D <= 64', ['1x1x64x64', '1x2x113x64c'], undefined],
])('default shapes are adapted to a kernel that requires %s', (require, shapes, adapted) => {
  const cases = parseCases(readFileSync(`${REPOSITORY_ROOT}/kernels/cases.yaml`, 'utf8'), 'cases.yaml');
  const written = readFileSync(`${REPOSITORY_ROOT}/kernels/fa_v1_baseline/kernel.yaml`, 'utf8');
  const limited = written.replace(/^limits:\n( .*\n)*/m, `limits: [{ require: "${require}", because: "a test" }]\n`);
  const manifest = parseManifest(limited, 'kernel.yaml');
  const planned = { manifest, resolved: resolveVariant(manifest), cases };
  const chosen = defaultShapes(cases.sets.quick!, planned);
  expect([chosen.shapes.map(formatShape), chosen.adapted]).toEqual([shapes, adapted]);
  if (adapted)
    expect(() => defaultShapes(cases.sets.quick!, { ...planned, judged: true })).toThrow('does not take 1x1x64x64');
});

const WRITTEN = readFileSync(`${REPOSITORY_ROOT}/kernels/cases.yaml`, 'utf8');

/** cases.yaml with an additional profile and set. */
const withOwn = (profile: string, shape: string): string =>
  WRITTEN.replace(/^tolerances:\n/m, `tolerances:\n  mine: ${profile}\n`).replace(
    /^sets:\n/m,
    `sets:\n  my_shapes:\n    - ${shape}\n`,
  );
const PROFILE = '{ atol: 0.5, rtol: 0.25, bf16: { atol: 0.75, rtol: 0.25 } }';
const SHAPE = '{ B: 1, H: 2, S: 3, D: 64, causal: true }';

test('a profile and a set added to cases.yaml are used like the original ones', () => {
  const cases = parseCases(withOwn(PROFILE, SHAPE), 'cases.yaml');
  const mine = create(ToleranceSchema, { profile: 'mine' });
  expect([
    chooseTolerance(mine, { cases, dtype: 'fp16' }),
    chooseTolerance(mine, { cases, dtype: 'bf16' }),
    caseSet('my_shapes', cases, 'case_set').map(formatShape),
  ]).toEqual([
    { profile: 'mine', absolute: 0.5, relative: 0.25 },
    { profile: 'mine', absolute: 0.75, relative: 0.25 },
    ['1x2x3x64c'],
  ]);
  const wrong = create(ToleranceSchema, { profile: 'min' });
  expect(() => chooseTolerance(wrong, { cases, dtype: 'fp16' })).toThrow(
    /Unknown tolerance profile "min".*mine.*cases.yaml has mine, default, parity, strict/,
  );
});

const NAMED = '{ name: "Model 8B small", B: 1, H: 2, S: 3, D: 64, causal: true }';

test('a request may name a case, and a shape with the values of a named case gets its name', () => {
  const cases = parseCases(withOwn(PROFILE, NAMED), 'cases.yaml');
  const manifest = parseManifest(readFileSync(`${REPOSITORY_ROOT}/kernels/fa_v1_baseline/kernel.yaml`, 'utf8'), 'k');
  const planned = { manifest, resolved: resolveVariant(manifest), cases };
  const chosen = (...asked: Shape[]) =>
    chooseShapes(asked, [], planned).map((shape) => [formatShape(shape), shape.name]);
  expect([
    chosen(parseCase('Model 8B small')),
    chosen(parseCase('1x2x3x64c'), parseCase('1x2x3x64')),
    chosen({ ...parseCase('1x2x5x64'), name: 'Model 8B small' }),
    caseSet('my_shapes', cases, 'case_set').map(({ name }) => name),
  ]).toEqual([
    [['1x2x3x64c', 'Model 8B small']],
    [
      ['1x2x3x64c', 'Model 8B small'],
      ['1x2x3x64', ''],
    ],
    [['1x2x5x64', '']],
    ['Model 8B small'],
  ]);
  expect(() => chosen(parseCase('Model 8B smal'))).toThrow(
    'shapes[0]: must be a shape or a case\'s name, got "Model 8B smal" (did you mean "Model 8B small"?)',
  );
});

test.each([
  [
    'a second name for the shape 1x2x3x64c',
    NAMED.replace('Model 8B small', 'Other'),
    'must be "Other", which 1x2x3x64c is called',
  ],
  [
    'a second shape with the same name',
    NAMED.replace('S: 3', 'S: 4'),
    '"Model 8B small" is the name of 1x2x4x64c: give 1x2x3x64c another',
  ],
  ['a comma in a name', NAMED.replace('8B', '8B,'), 'must be a name of at most 48 letters, digits, spaces and'],
])('an invalid or ambiguous name of a case is refused: %s', (_, other, message) => {
  const text = withOwn(PROFILE, `${other}\n  more:\n    - ${NAMED}`);
  expect(() => parseCases(text, 'cases.yaml')).toThrow(message);
});

test('an axis may be called "name", and the cases of its problem then have no names', () => {
  const definition = readFileSync(`${REPOSITORY_ROOT}/problems/rmsnorm/problem.yaml`, 'utf8').replaceAll(
    'rows',
    'name',
  );
  const problem = parseProblem(definition, 'problem.yaml');
  const text = readFileSync(`${REPOSITORY_ROOT}/problems/rmsnorm/cases.yaml`, 'utf8');
  const written = text.replace(/name: "[^"]*", /g, '').replaceAll('rows:', 'name:');
  expect(formatShape(parseCases(written, 'cases.yaml', problem).sets.quick![0]!)).toBe('N=257,name=3');
});

test.each([
  [
    PROFILE.replace('atol: 0.5', 'atol: -1'),
    SHAPE,
    /cases.yaml:\d+: tolerances.mine.atol: must be a number of at least 0/,
  ],
  [PROFILE.replace('bf16:', 'fp8:'), SHAPE, /cases.yaml:\d+: tolerances.mine: unknown key "fp8"/],
  [
    PROFILE,
    SHAPE.replace('S: 3', 'S: 0'),
    /cases.yaml:\d+: sets.my_shapes\[0\].S: must be an integer of 1 to 2147483647/,
  ],
  [
    PROFILE,
    SHAPE.replace('S: 3', 'S: 9223372036854775808'),
    /cases.yaml:\d+: sets.my_shapes\[0\].S: must be an integer/,
  ],
  [PROFILE, SHAPE.replace('D: 64, ', ''), /cases.yaml:\d+: sets.my_shapes\[0\].D: /],
])('a wrong profile or set is refused with file and line: %s, %s', (profile, shape, message) => {
  expect(() => parseCases(withOwn(profile, shape), 'cases.yaml')).toThrow(message);
});
