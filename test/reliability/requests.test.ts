/**
 * The same request_id with the same body gives the same job, however many clients send it at once. The same request_id
 * with a different body is refused.
 */
import { collect, kernel, startTestRunner } from '@flashcore/runner/testing-daemon';
import { RunnerClient } from '@flashcore/shared/client';
import { PATIENT_MS } from '@flashcore/shared/testing';
import { expect } from 'vitest';
import { campaign, integer, seededUuid } from './campaign.ts';

campaign(
  'concurrent duplicates of a request are one job',
  { promise: 'requests-are-jobs', rounds: { ci: 10, soak: 100 } },
  async ({ random, rounds, figure }) => {
    await using fixture = await startTestRunner();
    const clients = await Promise.all(
      Array.from({ length: 4 }, () => RunnerClient.connect({ address: fixture.runner.address, timeoutMs: PATIENT_MS })),
    );
    let sent = 0;
    for (let round = 0; round < rounds; round += 1) {
      const requestId = seededUuid(random);
      const copies = integer(random, 2, 16);
      const answers = Array.from({ length: copies }, async (_, index) => {
        // An id in upper case counts as the same id. The last copy has a different body.
        const id = index % 2 === 0 ? requestId : requestId.toUpperCase();
        const kernelId = index === copies - 1 ? 'flood_1' : 'flood_20';
        const events = await collect(
          clients[index % clients.length]!.start('build', { ...kernel(kernelId), options: { requestId: id } }),
        ).catch((error: { reason: string }) => error.reason);
        return typeof events === 'string' ? events : `${events[0]!.job} ${events.length}`;
      });
      sent += copies;
      const found = await Promise.all(answers);
      const names = new Set(found.filter((answer) => answer !== 'REQUEST_ID_REUSED'));
      expect(names.size, found.join('\n')).toBe(1);
      // The request that arrives first gets the id. If it is the copy with the other body, all other copies are
      // refused. Otherwise only the copy with the other body is refused.
      expect([1, copies - 1]).toContain(found.filter((answer) => answer === 'REQUEST_ID_REUSED').length);
      expect((await fixture.client.listJobs({ pageSize: 1000 })).jobs).toHaveLength(Math.min(round + 1, 1000));
    }
    clients.forEach((client) => client.close());
    figure(
      'concurrent duplicates of a request_id',
      `${sent} requests with ${rounds} ids made ${rounds} jobs; every other body was refused`,
    );
  },
);
