/**
 * kill -9 of a search's client and of its runner, in turns and at random moments: the search continues, and each trial
 * is counted once.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { Home, ROOT, isAlive } from '../support/home.ts';
import { layOutSmallKernel } from '../support/small-kernel.ts';
import { waitFor } from '@flashcore/shared/testing';
import { campaign, integer } from './campaign.ts';

const QUICK = ['--shape', '1x1x64x64', '--seeds', '1', '--samples', '10', '--max-seconds', '0.2'];
/** How many trials the search has for each kill. */
const TRIALS_PER_KILL = 3;

/**
 * A proposer whose results are known in advance: in every three trials, one kernel is correct, one does not compile,
 * and one trial gets no proposal.
 */
const PROPOSER = `import { readFileSync } from 'node:fs';
const { trial, base } = JSON.parse(readFileSync(0, 'utf8'));
if (trial % 3 === 0) process.exit(1);
const text = base.files['kernel.cu'] + '// ' + trial + (trial % 3 === 1 ? '' : '\\nsyntax error');
console.log(JSON.stringify({ name: 'change ' + trial, thought: 'none', files: { 'kernel.cu': text } }));`;
const STATUS = ['no-proposal', 'valid', 'not-built'];

campaign(
  'a search under kill -9 of client and runner',
  { promise: 'jobs-survive', rounds: { ci: 6, soak: 45 } },
  async ({ random, rounds: trials, figure }) => {
    await using home = new Home();
    const kernel = join(home.path, 'kernel');
    layOutSmallKernel(kernel, { source: 'kernel.cu' });
    const proposer = join(home.path, 'proposer.mjs');
    writeFileSync(proposer, PROPOSER);
    // Two islands, so that up to two candidates are in flight when the kill comes.
    let args = ['evolve', kernel, ...QUICK, '--trials', String(trials), '--islands', '2'];
    args.push('--proposer', `node ${proposer}`);
    const kills = Math.floor(trials / TRIALS_PER_KILL);
    for (let kill = 0; kill < kills; ++kill) {
      const client = spawn(join(ROOT, 'node_modules/.bin/fa-tui'), args, { cwd: ROOT, env: home.env, stdio: 'ignore' });
      const from = ended(home);
      // Kills at some moment of a trial, after at least one more trial has ended.
      await waitFor('a trial to end', () => ended(home) > from || client.exitCode !== null || undefined, 120_000);
      // eslint-disable-next-line flashcore/no-fixed-wait -- the kill comes at any moment
      await sleep(integer(random, 0, 1500));
      args = ['evolve', '--resume', searchOf(home)];
      // Every second kill, counted back from the last one, also ends the runner.
      if ((kills - kill) % 2 === 1) {
        const pid = home.runnerInfo()?.pid;
        if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGKILL');
        // Lets this client continue with the next runner for a while.
        // eslint-disable-next-line flashcore/no-fixed-wait -- the next kill comes at any moment
        await sleep(integer(random, 200, 1500));
      }
      client.kill('SIGKILL');
      await waitFor('the client to end', () => client.exitCode ?? client.signalCode ?? undefined);
    }
    const done = home.faTui(['evolve', '--resume', searchOf(home), '--json'], { timeoutMs: 1_200_000 });
    expect(done.exitCode, done.stderr).toBe(0);
    const summary = JSON.parse(done.stdout) as {
      trials: number;
      lineage: { trial: number; status: string; name: string }[];
    };
    expect(summary.trials).toBe(trials);
    expect(summary.lineage.slice(1).map(({ trial, status }) => [trial, status])).toEqual(
      Array.from({ length: trials }, (_, index) => [index + 1, STATUS[(index + 1) % 3]]),
    );
    const counted = decidedJobs(home);
    expect(counted.filter((trial, index) => counted.indexOf(trial) !== index)).toEqual([]);
    expect(counted.toSorted((a, b) => a - b)).toEqual(
      summary.lineage.map(({ trial }) => trial).filter((trial) => trial === 0 || trial % 3 !== 0),
    );
    figure('searches under kill -9', `${trials} trials, ${kills} kills of client and runner; every trial counted once`);
  },
);

const searches = (home: Home): string => join(home.path, 'state/flashcore/searches');

function searchOf(home: Home): string {
  const [search] = existsSync(searches(home)) ? readdirSync(searches(home)) : [];
  if (search === undefined) throw new Error('there is no search yet');
  return search;
}

/** How many trials of the search have ended. */
function ended(home: Home): number {
  if (!existsSync(searches(home)) || readdirSync(searches(home)).length === 0) return 0;
  const folder = join(searches(home), searchOf(home), 'trials');
  if (!existsSync(folder)) return 0;
  return readdirSync(folder).filter((name) => existsSync(join(folder, name, 'trial.json'))).length;
}

/** The number of the trial for every job that has a result. */
function decidedJobs(home: Home): number[] {
  const listed = home.faTui(['jobs', '--limit', '1000', '--label', `search=${searchOf(home)}`, '--json']).stdout;
  const { jobs } = JSON.parse(listed) as { jobs: { outcome: string; labels: Record<string, string> }[] };
  return jobs
    .filter(({ outcome }) => !/INTERRUPTED|CANCELLED|ERROR|UNSPECIFIED/.test(outcome))
    .map(({ labels }) => Number(labels['trial']));
}
