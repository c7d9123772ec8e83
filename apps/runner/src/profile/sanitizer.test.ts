import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { attentionCase, parseShape } from '@flashcore/shared/kernels';
import { expect, test } from 'vitest';
import { runSanitizer } from './sanitizer.ts';

test("the job's file is in the data folder while compute-sanitizer reads it, and is removed afterwards", async () => {
  const dataDirectory = mkdtempSync(join(tmpdir(), 'fc-sanitize-'));
  const program = join(dataDirectory, 'compute-sanitizer');
  writeFileSync(
    program,
    `#!/bin/sh\nfor file; do :; done\necho "$file" >${dataDirectory}/told; grep -q '"runs":1' "$file" || exit 1\n`,
    { mode: 0o755 },
  );
  const plan = {
    ...attentionCase(parseShape('1x1x64x64'), 'fp16'),
    launches: [],
    accumulate: 'fp32' as const,
    workspace: [],
  };
  const answer = await runSanitizer(
    { program, library: '', ordinal: 0, dataDirectory },
    {
      tool: 'memcheck',
      image: '',
      shape: parseShape('1x1x64x64'),
      plan,
      signal: new AbortController().signal,
      onLine: () => undefined,
    },
  );
  expect(answer).toEqual({ errors: [] });
  expect([
    readFileSync(join(dataDirectory, 'told'), 'utf8').startsWith(join(dataDirectory, 'tmp/sanitize-')),
    readdirSync(join(dataDirectory, 'tmp')),
  ]).toEqual([true, []]);
  rmSync(dataDirectory, { recursive: true });
});
