/**
 * Only one file of the PTX engine, vectors.h, may name instructions of a particular processor. All other files use the
 * functions it defines.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../support/home.ts';

const ENGINE = join(ROOT, 'libs/emulator/ptx');
/** Names of intrinsics' headers, types and functions, for x86 and arm64. */
const INTRINSICS =
  /\b(?:\w*mmintrin\.h|immintrin\.h|arm_neon\.h|__m(?:64|128|256|512)[id]?|_mm\d*_\w+|v\w+q_[usf]\d+|__builtin_(?:ia32|neon)_\w+)\b/;

test('only vectors.h has intrinsics', () => {
  const sources = readdirSync(ENGINE, { recursive: true, encoding: 'utf8' }).filter((file) =>
    /\.(?:h|cpp)$/.test(file),
  );
  const having = sources.filter((file) => INTRINSICS.test(readFileSync(join(ENGINE, file), 'utf8')));
  expect(having).toEqual(['vectors.h']);
});
