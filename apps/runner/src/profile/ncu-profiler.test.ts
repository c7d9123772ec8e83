import { chmodSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { Verdict, DeviceSchema, type ProfileResult } from '@flashcore/shared/contract';
import { attentionCase, parseShape, type LaunchPlan } from '@flashcore/shared/kernels';
import { shellWord } from '@flashcore/shared/text';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ArtifactStore } from '../store/artifacts.ts';
import { ncuProfiler } from './ncu-profiler.ts';
import type { ProfiledBuild } from './profiler.ts';

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'flashcore-ncu-test-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

const RECORDED = shellWord(fileURLToPath(new URL('recorded/sm_90.raw.base.csv', import.meta.url)));
/** A fake ncu that writes a report; when it should print the report, it runs `importing`. */
const fakeNcu = (importing: string): string => `#!/bin/sh
if [ "$1" = --export ]; then echo "==PROF== Profiling \\"k\\" - 1 (1/1): 0%....100% - 8 passes"; echo report > "$2.ncu-rep"; echo "$2" > "\${0%/*}/told"; for last; do :; done; cp "$last" "\${0%/*}/job.json"; exit 0; fi
${importing}
`;

const profile = (importing: string): Promise<ProfileResult> => profileBy(fakeNcu(importing));

const BUILT: ProfiledBuild = { image: 'kernel.cubin', waves: undefined };

function profileBy(
  script: string,
  built: ProfiledBuild | Promise<ProfiledBuild> = BUILT,
  onLaunched?: () => void,
): Promise<ProfileResult> {
  const ncu = join(folder, 'ncu');
  writeFileSync(ncu, script);
  chmodSync(ncu, 0o755);
  const profiler = ncuProfiler({
    ncu,
    library: '',
    ordinal: 0,
    artifacts: new ArtifactStore(join(folder, 'artifacts')),
    dataDirectory: folder,
  });
  const plan: LaunchPlan = {
    launches: [{ entry: 'k', grid: [1, 1, 1], block: [32, 1, 1], sharedBytes: 0, l2Persist: [], arguments: [] }],
    ...attentionCase(parseShape('2x8x512x64'), 'fp16'),
    accumulate: 'fp32',
    workspace: [],
  };
  return profiler.profile(
    {
      device: create(DeviceSchema, { arch: 'sm_90' }),
      shape: parseShape('2x8x512x64'),
      plan,
      metricSet: 'gates',
      referenceLibrary: () => Promise.resolve('/libraries/reference.so'),
    },
    { signal: new AbortController().signal, onProgress: () => undefined, built, ...(onLaunched && { onLaunched }) },
  );
}

test.each([
  [
    "that ncu can't read",
    'echo "==ERROR== Failed to open report: unexpected end of file" >&2; exit 1',
    'ncu could not read its report: exit status 1, ==ERROR== Failed to open report: unexpected end of file',
  ],
  ['whose ncu dies', 'kill -SEGV $$', 'ncu could not read its report: ended by SIGSEGV'],
  ['without a launch', 'exit 0', 'ncu ended with exit status 0 and read no counter'],
])(
  'a report %s does not fail the job: it ends as not measured with the reason, and the report is kept',
  async (_, importing, reason) => {
    const { verdict, reason: told, artifacts } = await profile(importing);
    expect([verdict, told, artifacts.map(({ fileName, sizeBytes }) => [fileName, Number(sizeBytes)])]).toEqual([
      Verdict.NOT_MEASURED,
      reason,
      [['k.2x8x512x64.ncu-rep', 7]],
    ]);
  },
);

test('the launched program gets the library that draws inputs, because drawing gigabytes takes half a minute without it', async () => {
  await profile('exit 0');
  expect(JSON.parse(readFileSync(join(folder, 'job.json'), 'utf8'))).toMatchObject({
    referenceLibrary: '/libraries/reference.so',
    runs: 2,
  });
});

test('a report that ncu can read becomes the result', async () => {
  const { verdict, metrics, artifacts } = await profile(`cat ${RECORDED}`);
  expect([verdict, metrics.length > 5, artifacts.length]).toEqual([Verdict.PASS, true, 1]);
  // The report was written in the data folder's `tmp`, from which the next runner would remove it after a crash.
  expect([
    readFileSync(join(folder, 'told'), 'utf8').startsWith(join(folder, 'tmp/ncu-')),
    readdirSync(join(folder, 'tmp')),
  ]).toEqual([true, []]);
});

test('if ncu prints the report while writing it, that output is used, and ncu does not run again', async () => {
  const script = `#!/bin/sh
case "$1" in --import) exit 7;; esac
echo "==PROF== Connected to process 7"; cat ${RECORDED}; echo report > "$2.ncu-rep"
`;
  const { verdict, metrics, artifacts } = await profileBy(script);
  expect([verdict, metrics.length > 5, artifacts.length]).toEqual([Verdict.PASS, true, 1]);
});

test('the profiler launches nothing before the build is there, and the launch then uses that build', async () => {
  const { promise, resolve } = Promise.withResolvers<ProfiledBuild>();
  const script = `#!/bin/sh
for job; do :; done
touch "\${0%/*}/ready"
go="$(sed 's/.*"waitFor":"\\([^"]*\\)".*/\\1/' "$job")"
until [ -e "$go" ]; do sleep 0.01; done
cp "$go" "\${0%/*}/launched"; cat ${RECORDED}; echo report > "$2.ncu-rep"
`;
  const profiled = profileBy(script, promise);
  await expect.poll(() => readdirSync(folder)).toContain('ready');
  expect(readdirSync(folder)).not.toContain('launched');
  resolve(BUILT);
  expect((await profiled).verdict).toBe(Verdict.PASS);
  expect(readFileSync(join(folder, 'launched'), 'utf8')).toBe('"kernel.cubin"');
});

test('the device is reported free while ncu still writes', async () => {
  const script = `#!/bin/sh
for job; do :; done
touch "$(sed 's/.*"done":"\\([^"]*\\)".*/\\1/' "$job")"
until [ -e "\${0%/*}/seen" ]; do sleep 0.01; done
cat ${RECORDED}; echo report > "$2.ncu-rep"
`;
  const { verdict } = await profileBy(script, BUILT, () => writeFileSync(join(folder, 'seen'), ''));
  expect(verdict).toBe(Verdict.PASS);
});
