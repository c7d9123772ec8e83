/** Messages with extreme values, made from the contract. */
import { ScalarType, create, type DescField, type DescMessage, type Message } from '@bufbuild/protobuf';
import { reflect } from '@bufbuild/protobuf/reflect';
import { type Random } from '@flashcore/shared/statistics';
import { integer, pick } from './campaign.ts';

/** A message in which each field is unset or has an extreme value. Its texts may be names of these jobs. */
export function randomMessage(random: Random, desc: DescMessage, jobs: readonly string[], depth: number): Message {
  const message = create(desc);
  const target = reflect(desc, message, false);
  // If several fields of a oneof are drawn, the first one is set. A random field therefore comes first.
  const first = integer(random, 0, Math.max(0, desc.fields.length - 1));
  for (const field of [...desc.fields.slice(first), ...desc.fields.slice(0, first)]) {
    if (random.uniform() < 0.35 || (field.oneof && target.oneofCase(field.oneof))) continue;
    const value = (): unknown => randomValue(random, field, jobs, depth);
    if (field.fieldKind === 'list') {
      const list = target.get(field);
      for (let left = integer(random, 0, 4); left > 0; left -= 1) list.add(value());
    } else if (field.fieldKind === 'map') {
      const map = target.get(field);
      for (let left = integer(random, 0, 3); left > 0; left -= 1)
        map.set(
          randomText(random, 'key', jobs),
          field.scalar === ScalarType.DOUBLE ? pick(random, DOUBLES) : BigInt(pick(random, INTEGERS)),
        );
    } else {
      target.set(field, value());
    }
  }
  return message;
}

const INTEGERS = [0, 1, -1, 2, 7, 64, 100, 255, 256, 65_535, 2 ** 31 - 1, -(2 ** 31)];
const DOUBLES = [
  0,
  -0,
  1,
  -1,
  0.5,
  1e-300,
  1e300,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  604_801,
];

function randomValue(random: Random, field: DescField, jobs: readonly string[], depth: number): unknown {
  if (field.message)
    return depth > 4
      ? reflect(field.message)
      : reflect(field.message, randomMessage(random, field.message, jobs, depth + 1), false);
  if (field.enum) return pick(random, [0, 1, 2, 3, -1, 99, 2 ** 31 - 1]);
  switch (field.scalar) {
    case ScalarType.STRING:
      return randomText(random, field.name, jobs);
    case ScalarType.BYTES:
      return Buffer.alloc(
        rarely(random, 0.05) ? pick(random, [65_536, 65_537]) : pick(random, [0, 1, 100]),
        integer(random, 0, 255),
      );
    case ScalarType.BOOL:
      return random.uniform() < 0.5;
    case ScalarType.DOUBLE:
      return pick(random, DOUBLES);
    case ScalarType.FLOAT:
      return Math.fround(pick(random, DOUBLES));
    case ScalarType.INT64:
      return pick(random, [0n, 1n, -1n, 5n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)]);
    case ScalarType.INT32:
      return pick(random, INTEGERS);
    case ScalarType.UINT32:
      return pick(random, [0, 1, 2, 2 ** 31, 2 ** 32 - 1]);
    default:
      throw new Error(`Wanted a kind of field that the requests have, found ${field.toString()}`);
  }
}

const TEXTS = [
  '',
  ' ',
  'ok',
  'flood_3',
  'x',
  '\0',
  '\u001b[2J',
  '../..',
  '/etc/passwd',
  'é'.repeat(300),
  '\u{1f600}',
  '__proto__',
  '%s%n',
  "'; DROP TABLE jobs; --",
];

function randomText(random: Random, name: string, jobs: readonly string[]): string {
  if (name === 'name' && random.uniform() < 0.6) return pick(random, jobs);
  if (name === 'sha256' && random.uniform() < 0.6) return pick(random, ['0', 'a', 'f']).repeat(64);
  if (name === 'kernel_id' && random.uniform() < 0.5) return pick(random, ['ok', 'flood_3', 'error', 'fa_v1_baseline']);
  if (name === 'request_id' && random.uniform() < 0.8) return '';
  if (name === 'device_id' && random.uniform() < 0.8) return pick(random, ['', 'gpu0']);
  return rarely(random, 0.01) ? 'a'.repeat(200_000) : pick(random, TEXTS);
}

/** Long values are rare, because a million messages with them would take hours. */
const rarely = (random: Random, probability: number): boolean => random.uniform() < probability;
