import { create, type DescMessage, fromJson, toJsonString, type JsonValue } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { GetHostResponseSchema } from '../generated/flashcore/runner/v1/service_pb.js';
import { JobEventSchema, LogLineSchema } from '../generated/flashcore/runner/v1/job_event_pb.js';
import { HOSTILE_TEXT, hostileMessage } from '../testing/hostile-message.ts';
import { plainMessage } from './plain-message.ts';

const JSON_OF_HOSTILE = JSON.stringify(HOSTILE_TEXT).slice(1, -1);
const CONTROL = /\\u00[01]|[\0-\x08\x0b-\x1f\x7f-\x9f\u202e\u200b\u{e0069}]/u;

test('plainMessage() cleans the text in every field of every event, and nothing else', () => {
  const oneof = JobEventSchema.oneofs.find(({ localName }) => localName === 'payload')!;
  expect(oneof.fields.length).toBeGreaterThan(10);
  for (const field of oneof.fields) {
    const event = hostileMessage(JobEventSchema, { payload: field.localName });
    const before = toJsonString(JobEventSchema, event);
    expect(before, field.name).toMatch(CONTROL);
    const after = toJsonString(JobEventSchema, plainMessage(JobEventSchema, event));
    expect(after, field.name).not.toMatch(CONTROL);
    expect(after, field.name).not.toContain('ZXZpbA');
    expect(shapeOf(JSON.parse(after) as JsonValue)).toEqual(
      shapeOf(JSON.parse(before.replaceAll(JSON_OF_HOSTILE, 'safetext')) as JsonValue),
    );
  }
});

test('plainMessage() does not set fields that are not set', () => {
  for (const schema of [JobEventSchema, GetHostResponseSchema, LogLineSchema] as DescMessage[])
    expect(plainMessage(schema, create(schema))).toEqual(fromJson(schema, {}));
});

/** The keys at every depth, with the types of the values. */
function shapeOf(value: JsonValue): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (typeof value !== 'object' || value === null) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, shapeOf(each)]));
}
