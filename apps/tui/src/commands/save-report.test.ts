import { mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  ArtifactKind,
  JobKind,
  Outcome,
  Verdict,
  GetJobResponseSchema,
  JobEventSchema,
  type ProfileResultSchema,
} from '@flashcore/shared/contract';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CommandContext } from './context.ts';
import { followJob } from './follow-job.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), 'fa-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Follows a job with this profile to its end, by default with --save. */
async function follow(
  profile: MessageInitShape<typeof ProfileResultSchema>,
  { kind = JobKind.PROFILE, save = true } = {},
): Promise<{ code: number; stderr: string; asked: string[] }> {
  const asked: string[] = [];
  let stderr = '';
  const stream = { write: () => true };
  const context = new CommandContext(
    { stdin: {}, stdout: stream, stderr: { write: (text: string) => (stderr += text) }, environment: {} },
    { color: 'never', json: true },
  );
  const result = {
    variants: [
      { label: 'fallback', fallback: true },
      { label: 'asked', profile },
    ],
  };
  const client = {
    getJob: () => Promise.resolve(create(GetJobResponseSchema, { job: { name: 'jobs/1', kind }, result })),
    readArtifact: (sha256: string) => {
      asked.push(sha256);
      return Promise.resolve(Buffer.from('NVR'));
    },
  };
  async function* events() {
    yield await Promise.resolve(
      create(JobEventSchema, {
        job: 'jobs/1',
        sequence: 1n,
        payload: { case: 'finished', value: { outcome: Outcome.PASSED, result } },
      }),
    );
  }
  return {
    code: await followJob(events, { client }, context, save ? { save: path.join(folder, 'k.ncu-rep') } : {}),
    stderr,
    asked,
  };
}

test("--save writes Nsight Compute's report of the requested variant", async () => {
  const sha256 = 'ab'.repeat(32);
  const { code, stderr, asked } = await follow({
    verdict: Verdict.PASS,
    artifacts: [
      { kind: ArtifactKind.SAMPLES, sha256: 'cd' },
      { kind: ArtifactKind.NCU_REPORT, sha256, fileName: 'v6.2x8x512x64.ncu-rep', sizeBytes: 3n },
    ],
  });
  expect([code, asked, readFileSync(path.join(folder, 'k.ncu-rep'), 'utf8')]).toEqual([0, [sha256], 'NVR']);
  expect(stderr).toContain('v6.2x8x512x64.ncu-rep, 3 bytes');
});

test('if there is no report, --save exits with 3 and the reason, and leaves no file', async () => {
  const { code, stderr } = await follow({
    verdict: Verdict.NOT_MEASURED,
    reason: 'the emulator has no hardware counters',
  });
  expect([code, readdirSync(folder)]).toEqual([3, []]);
  expect(stderr).toMatch(
    /^error: Nothing was written to .*k\.ncu-rep: not measured: the emulator has no hardware counters$/m,
  );
});

test('a failed profile exits with 3 even without --save, but does not change the exit code of an experiment', async () => {
  const unmeasured = { verdict: Verdict.NOT_MEASURED, reason: 'the emulator has no hardware counters' };
  const { code, stderr } = await follow(unmeasured, { save: false });
  expect([code, stderr]).toEqual([
    3,
    expect.stringMatching(/^error: Nothing was profiled: not measured: the emulator has no hardware counters$/m),
  ]);
  expect((await follow(unmeasured, { save: false, kind: JobKind.EXPERIMENT })).code).toBe(0);
  expect((await follow({ verdict: Verdict.PASS }, { save: false })).code).toBe(0);
});
