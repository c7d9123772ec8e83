/** A watch resumes without gap or repeat, wherever the connection was cut. */
import { join } from 'node:path';
import { collect, finished, kernel, startTestRunner, type TestRunner } from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { Outcome, type JobEvent } from '@flashcore/shared/contract';
import { expect } from 'vitest';
import { campaign, inLanes, integer, type Campaign } from './campaign.ts';
import { CutProxy } from './cut-proxy.ts';

const LINES = 12;
const LANES = 12;
const withoutTime = ({ sequence, payload }: JobEvent): [number, string] => [
  Number(sequence),
  payload.case === 'logLine' ? payload.value.text : String(payload.case),
];

campaign(
  'a stream cut at a byte offset is taken up again: the pieces joined are the log',
  { promise: 'watch-resumes', rounds: { ci: 96, soak: Infinity } },
  async (run) => {
    await using fixture = await startTestRunner();
    const log = await collect(fixture.client.start('build', kernel(`flood_${LINES}`)));
    const job = log[0]!.job;
    const bytes = await streamBytes(fixture, job);
    const offsets = chooseOffsets(run, bytes);
    const proxies = await Promise.all(Array.from({ length: LANES }, (_, index) => openLane(fixture, index)));
    const free = [...proxies];
    await inLanes(LANES, offsets, async (offset) => {
      const { proxy, client } = free.pop()!;
      // Every other stream starts a job. In every third case the resumed stream is cut as well.
      const again = offset % 3 === 0 ? [(offset * 7) % bytes] : [];
      proxy.cutAfter(offset, ...again);
      const seen = await collect(
        offset % 2 === 0 ? client.watch(job) : client.start('build', kernel(`flood_${LINES}`)),
      );
      expect(
        seen.map(withoutTime),
        `cut after ${offset} bytes${again.length > 0 ? `, then after ${again[0]}` : ''}`,
      ).toEqual(log.map(withoutTime));
      expect(finished(seen).outcome).toBe(Outcome.PASSED);
      proxy.cutAfter();
      free.push({ proxy, client });
    });
    for (const { proxy, client } of proxies) {
      client.close();
      await proxy[Symbol.asyncDispose]();
    }
    const jobs = await countJobs(fixture.client);
    // One job for the log, and one for each stream that started a job: a stream that was cut before its first event did
    // not start a second job.
    expect(jobs).toBe(1 + offsets.filter((offset) => offset % 2 !== 0).length);
    run.figure(
      'cuts at byte offsets of a recorded stream',
      `${offsets.length} of ${bytes} offsets; all pieces joined equal the log, no job started twice`,
    );
  },
);

async function openLane(
  { runner, dataDirectory }: TestRunner,
  index: number,
): Promise<{ proxy: CutProxy; client: RunnerClient }> {
  const proxy = await CutProxy.open(join(dataDirectory, `../p${index}`), runner.address);
  return { proxy, client: await RunnerClient.connect({ address: proxy.address }) };
}

/** How many bytes the runner sends for a whole watch. */
async function streamBytes(fixture: TestRunner, job: string): Promise<number> {
  const { proxy, client } = await openLane(fixture, 99);
  proxy.cutAfter();
  await collect(client.watch(job));
  client.close();
  await proxy[Symbol.asyncDispose]();
  return proxy.passed;
}

function chooseOffsets({ random, rounds }: Campaign, bytes: number): number[] {
  if (rounds >= bytes) return Array.from({ length: bytes }, (_, offset) => offset);
  // Always cuts within the frame headers at both ends of the stream. The other offsets are random.
  return [
    ...new Set([
      ...Array(12).keys(),
      bytes - 2,
      bytes - 1,
      ...Array.from({ length: rounds - 14 }, () => integer(random, 12, bytes - 3)),
    ]),
  ];
}

async function countJobs(client: RunnerClient): Promise<number> {
  let count = 0;
  let pageToken = '';
  do {
    const page = await client.listJobs({ pageSize: 1000, pageToken });
    count += page.jobs.length;
    pageToken = page.nextPageToken;
  } while (pageToken !== '');
  return count;
}
