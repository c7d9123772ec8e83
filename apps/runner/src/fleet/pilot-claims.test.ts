import { create, ScalarType, type DescMessage } from '@bufbuild/protobuf';
import {
  CaseResultSchema,
  JobEventSchema,
  JobResultSchema,
  Outcome,
  ShapeSchema,
  ToleranceSchema,
} from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { FAKE_DEVICE } from '../testing/fake-planner.ts';
import { contradictionIn } from './pilot-claims.ts';

/** Messages whose figures do not depend on the kernel. */
const RUNNERS_OWN: readonly string[] = [ToleranceSchema.typeName, ShapeSchema.typeName];

/** A message with `value` in every double, and with one message in every message field. */
function filled(desc: DescMessage, value: number): Record<string, unknown> {
  return Object.fromEntries(
    desc.fields.flatMap((field): [string, unknown][] => {
      if (field.message && RUNNERS_OWN.includes(field.message.typeName)) return [];
      const one = field.message ? filled(field.message, value) : value;
      if (!field.message && field.scalar !== ScalarType.DOUBLE) return [];
      return [[field.localName, field.fieldKind === 'list' ? [one] : one]];
    }),
  );
}

test.each([NaN, Infinity])('a pilot may report %d wherever a wrong kernel can produce it', (value) => {
  const found = filled(CaseResultSchema, value);
  expect(Object.keys(found)).toEqual(expect.arrayContaining(['maxAbsError', 'outputs', 'rounding', 'errorMap']));
  const result = create(JobResultSchema, { variants: [{ verify: { cases: [found] } }] });
  const finished = { outcome: Outcome.WRONG_RESULT, result };
  const event = create(JobEventSchema, { payload: { case: 'finished', value: finished } });
  expect(contradictionIn(event, { device: FAKE_DEVICE, buildId: 'b1' })).toBeUndefined();
});
