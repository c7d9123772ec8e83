import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import type { Device } from '@flashcore/shared/contract';
import { runnerKernels } from '../connection/data-directory.ts';
import type { CandidateSource } from './candidate-source.ts';
import { bounded } from './feedback.ts';
import { MAX_SOURCE_BYTES, manifestOf, sourceBytes } from './kernel-source.ts';
import { islandOf, type Selection } from './population.ts';
import { MAX_ANSWER_BYTES, MAX_FEEDBACK_BYTES, PROTOCOL, type ProposalRequest } from './protocol.ts';
import type { SearchStore } from './search-store.ts';
import type { Trial } from './trial.ts';

const MAX_TRIED = 100;
const MAX_OUTCOME = 200;

const RULES = [
  'Every case must be right on every seed; a candidate that is wrong is never accepted.',
  'The kernel is device code only: the runner compiles it with nvcc and launches it as kernel.yaml says.',
  'kernel.yaml may change (launches, parameters, shared_bytes), its id may not.',
  'Outputs are checked while launches are timed, on inputs that nobody has seen: work that is left out is found.',
  'Change one thing at a time and say in the thought why it should be faster.',
];

interface RequestContext {
  readonly store: SearchStore;
  readonly device: Device;
  readonly trial: number;
  /** The earlier trials that the request may show. */
  readonly trials: readonly Trial[];
  readonly selection: Selection;
}

/** The request for a trial: I1 the task, I2 past solutions, I3 insights. */
export function proposalRequest({ store, device, trial, trials, selection }: RequestContext): ProposalRequest {
  const { plan } = store;
  const { operator, parents, best, thoughts, seed } = selection;
  const base = parents[0]!;
  const island = islandOf(trial, plan.islands);
  const baseSource = store.candidate(base.trial);
  let room = MAX_SOURCE_BYTES - sourceBytes(baseSource.files);
  const shown = [best, ...parents.filter((parent) => parent.trial !== best.trial)];
  const solutions = shown.map((solution) => {
    const { files, parameters } = store.candidate(solution.trial);
    const bytes = sourceBytes(files);
    const fits = bytes <= room;
    if (fits) room -= bytes;
    return {
      trial: solution.trial,
      role: solution === best ? ('best' as const) : ('parent' as const),
      name: solution.name,
      thought: solution.thought,
      score: solution.score,
      metrics: { ...solution.evaluation?.metrics },
      parameters: { ...parameters },
      ...(fits && { files: { ...files } }),
    };
  });
  return {
    protocol: PROTOCOL,
    search: plan.id,
    trial,
    island,
    seed,
    operator,
    task: taskOf(plan, device, { trials, base: baseSource }),
    base: { trial: base.trial, parameters: { ...baseSource.parameters }, files: { ...baseSource.files } },
    solutions,
    thoughts: [...thoughts],
    insights: {
      feedback: feedbackFor(
        base,
        trials.findLast((each) => each.trial > 0 && islandOf(each.trial, plan.islands) === island),
      ),
      notes: bounded(plan.notes, MAX_FEEDBACK_BYTES),
      // Trials of all islands, so that no island proposes code that another island has tried.
      tried: trials.slice(-MAX_TRIED).map((tried) => ({
        trial: tried.trial,
        parents: [...tried.parents],
        name: tried.name,
        parameters: { ...tried.parameters },
        outcome: `${tried.status}${tried.why ? `: ${tried.why}` : ''}`.slice(0, MAX_OUTCOME),
      })),
    },
    limits: { answer_bytes: MAX_ANSWER_BYTES, source_bytes: MAX_SOURCE_BYTES, seconds: plan.proposerSeconds },
  };
}

function taskOf(
  { kernelId, options }: SearchStore['plan'],
  device: Device,
  { trials, base }: { trials: readonly Trial[]; base: CandidateSource },
): ProposalRequest['task'] {
  const manifest = manifestOf(base.files);
  return {
    kernel: kernelId,
    title: manifest.title,
    objective: `Reduce the latency of this CUDA attention kernel on ${device.name}; its output must stay right.`,
    device: {
      name: device.name,
      arch: device.arch,
      simulated: device.simulated,
      multiprocessors: device.multiprocessors,
      smem_optin_bytes: device.smemOptinBytes,
      smem_per_multiprocessor_bytes: device.smemPerMultiprocessorBytes,
      registers_per_multiprocessor: device.registersPerMultiprocessor,
    },
    cases: [...requiredCases(trials)],
    shapes: ((options['shape'] as string[] | undefined) ?? []).slice(),
    gates: gatesOf(trials),
    limits: manifest.limits.map(({ require, because }) => `${require.text}: ${because}`),
    parameters: Object.entries(manifest.parameters).map(([name, parameter]) => ({
      name,
      values: [...parameter.values],
      default: parameter.default,
      about: parameter.about,
    })),
    headers: headers(),
    rules: RULES,
  };
}

/** Cases that the root passed. */
export const requiredCases = (trials: readonly Trial[]): readonly string[] => trials[0]?.cases ?? [];
const gatesOf = (trials: readonly Trial[]): string[] => [...(trials[0]?.gates ?? [])];

/** The result of the island's last trial, then the compiler's and profiler's reports on the base. */
function feedbackFor(base: Trial, last: Trial | undefined): string {
  const { compiler = '', profile = '' } = base.evaluation?.artifacts ?? {};
  const parts = [
    last
      ? `Trial ${last.trial} (${last.name || 'no name'}): ${last.status}. ${last.evaluation?.text_feedback ?? last.why}`
      : '',
    compiler && `Compiler about trial ${base.trial}:\n${bounded(compiler, 1024)}`,
    profile && `Profiler about trial ${base.trial}:\n${bounded(profile, 1024)}`,
  ];
  const [first = '', ...rest] = parts.filter(Boolean);
  const restText = rest.join('\n\n');
  return bounded(
    [bounded(first, MAX_FEEDBACK_BYTES - Buffer.byteLength(restText) - 2), restText].filter(Boolean).join('\n\n'),
    MAX_FEEDBACK_BYTES,
  );
}

/** Headers of this clone that every kernel may include, with the first line of each. */
function headers(): { path: string; about: string }[] {
  const root = runnerKernels();
  return ['primitives', 'mechanisms'].flatMap((room) => {
    const folder = path.join(root, room);
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.endsWith('.cuh'))
      .toSorted()
      .map((name) => ({ path: `${room}/${name}`, about: firstComment(readFileSync(path.join(folder, name), 'utf8')) }));
  });
}

const firstComment = (text: string): string => (/^\s*\/\/\s*(.*)/m.exec(text)?.[1] ?? '').slice(0, 200);
