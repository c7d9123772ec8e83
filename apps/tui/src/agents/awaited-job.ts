import { setTimeout as sleep } from 'node:timers/promises';
import type { ServerContext } from '@modelcontextprotocol/server';
import { JobState, Phase, type Job, type JobEvent } from '@flashcore/shared/contract';
import type { Connection } from '../connection/connect.ts';
import { variantLine } from '../search/feedback.ts';

/** Waits until the job has ended or the time is up. Returns the job with its last known activity. */
export async function waitForJob(
  { client }: Connection,
  { job: name, seconds }: { job: string; seconds: number },
  { mcpReq }: ServerContext,
): Promise<{ ended: Job; doing: string }> {
  const { job } = await client.getJob({ name });
  if (job!.state === JobState.ENDED || seconds === 0) return { ended: job!, doing: '' };
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, mcpReq.signal]);
  const progressToken = mcpReq._meta?.progressToken;
  let doing = '';
  let progress = 0;
  const follow = async (): Promise<void> => {
    for await (const event of client.watch(name, { afterSequence: 0, signal, onExpired: () => undefined })) {
      const phase = phaseOf(event);
      if (phase === '' || phase === doing) continue;
      doing = phase;
      if (progressToken === undefined) continue;
      progress += 1;
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, message: doing } });
    }
  };
  const following = follow().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  try {
    await Promise.race([following, sleep(seconds * 1000, undefined, { signal })]);
  } finally {
    stop.abort();
  }
  await following;
  const { signal: asked } = mcpReq;
  return { ended: (await client.getJob({ name }, { signal: asked, resume: { signal: asked } })).job!, doing };
}

function phaseOf({ payload }: JobEvent): string {
  switch (payload.case) {
    case 'phaseStarted':
      return `${Phase[payload.value.phase]?.toLowerCase() ?? 'a phase'} ${payload.value.variant}`.trim();
    case 'tunedVariant':
      return variantLine(payload.value);
    case 'verifyProgress':
      return payload.value.seedCount === 0
        ? `verify, probe ${payload.value.probesDone + 1} of ${payload.value.probeCount}`
        : `verify, case ${payload.value.caseIndex + 1} of ${payload.value.caseCount}`;
    default:
      return '';
  }
}
