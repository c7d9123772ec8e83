import { setTimeout as sleep } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import type { McpServer, ServerContext } from '@modelcontextprotocol/server';
import {
  ComparisonVerdict,
  JobOptionsSchema,
  JobState,
  KernelVariantSchema,
  Outcome,
  Phase,
  VariantSchema,
  Verdict,
  type Job,
  type JobEvent,
} from '@flashcore/shared/contract';
import { formatShape, parseShape } from '@flashcore/shared/kernels';
import * as z from 'zod';
import type { Connection } from '../connection/connect.ts';
import { askedVariant, evaluationOf } from '../search/evaluation.ts';
import { bounded, findingText } from '../search/feedback.ts';
import { tuneText, variantLine } from '../search/tune-report.ts';
import type { StartRequest } from '../session/runner-port.ts';
import { Refused, answer, answered, type ResourceLink } from './answers.ts';
import type { ToolContext } from './tool-context.ts';

/** Codex and Claude Desktop end a call after 60 s. */
const MAX_WAIT_SECONDS = 45;
const MAX_FINDING = 1500;
const MAX_FINDINGS = 3;
/** Of a tune's table: an answer has at most 8 kB. */
const MAX_TABLE_LINES = 20;
const MAX_TABLE_LINE = 200;

const ACTIONS = ['build', 'verify', 'bench', 'profile', 'run', 'tune'] as const;

const parameters = z.record(z.string(), z.number().int()).default({}).describe('build-time parameters, NAME to value');
const shapes = z.array(z.string()).default([]).describe('BxHxSxD, c appended when causal; empty: the usual ones');
const jobName = z.string().describe('as submit gave it');
const waitSeconds = z.number().min(0).max(MAX_WAIT_SECONDS).default(MAX_WAIT_SECONDS);

const jobState = {
  job: z.string(),
  state: z.enum(['queued', 'running', 'ended']),
  outcome: z.string().optional().describe('set once it has ended; PASSED, FAILED, COMPILE_FAILED, WRONG_RESULT …'),
  summary: z.string().optional(),
};

/** submit, wait, result and compare: jobs have durable names, and go on when nobody waits. */
export function registerJobTools(server: McpServer, context: ToolContext): void {
  const { runner, log } = context;
  const starts = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false };
  const readOnly = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

  server.registerTool(
    'submit',
    {
      title: 'Start a job',
      description:
        'Builds, verifies, benchmarks, profiles a kernel, runs all of it with the gates (run), or searches its variants for the fastest right one (tune). Answers at once with the job’s name: wait for it, then read its result. A folder’s files are uploaded as they are now.',
      inputSchema: z.object({
        action: z.enum(ACTIONS),
        kernel: z.string().describe('id of a kernel of the runner, or a folder of this machine with a kernel.yaml'),
        parameters,
        shapes,
        seeds: z.number().int().min(1).max(100).optional().describe('fresh random inputs a shape (default 5)'),
        samples: z.number().int().min(1).max(1_000_000).optional().describe('take exactly this many timed samples'),
        champion: z.string().optional().describe('kernel or folder to compare with in the same job (bench, run, tune)'),
        values: z
          .record(z.string(), z.array(z.number().int()).min(1))
          .default({})
          .describe('tune: values to try, NAME to list; a parameter that is not named stays; empty: all of all'),
        max_variants: z.number().int().min(1).optional().describe('tune: most variants, drawn where there are more'),
        max_device_seconds: z.number().positive().optional().describe('tune: begin no measurement beyond it'),
        device: z.string().optional(),
        labels: z.record(z.string(), z.string()).default({}).describe('to find the job by'),
      }),
      outputSchema: z.object(jobState),
      annotations: starts,
    },
    (asked) =>
      answered(async () => {
        const connection = await runner.get();
        const request = await requestOf(asked, connection, context);
        return answer(stateOf(await start(connection, request)));
      }, log),
  );

  server.registerTool(
    'wait',
    {
      title: 'Wait for a job',
      description: 'Waits until a job ends, at most 45 s; call again while it runs. Progress is told meanwhile.',
      inputSchema: z.object({ job: jobName, wait_seconds: waitSeconds }),
      outputSchema: z.object({ ...jobState, doing: z.string().optional().describe('what it does now') }),
      annotations: readOnly,
    },
    ({ job, wait_seconds: seconds }, toolContext) =>
      answered(async () => {
        const connection = await runner.get();
        const { ended, doing } = await waitFor(connection, { job, seconds }, toolContext);
        return answer({ ...stateOf(ended), ...(ended.state !== JobState.ENDED && doing !== '' && { doing }) });
      }, log),
  );

  server.registerTool(
    'result',
    {
      title: 'Read a result',
      description:
        'What an ended job found out: right or wrong, findings with place and remedy, figures. The log, the compiler’s messages and the whole result are linked.',
      inputSchema: z.object({ job: jobName }),
      outputSchema: z.object({
        ...jobState,
        correct: z.boolean().optional(),
        stage: z.string().optional(),
        simulated: z
          .boolean()
          .optional()
          .describe('true: the emulator; its times are not GPU times, do not chase them'),
        findings: z.array(z.string()).optional(),
        feedback: z.string().optional(),
        metrics: z.record(z.string(), z.number()).optional(),
        table: z.array(z.string()).optional().describe('of tune: its variants, the best first; a star: Pareto front'),
        gates_failed: z.array(z.string()).optional(),
      }),
      annotations: readOnly,
    },
    ({ job: name }) =>
      answered(async () => {
        const { client } = await runner.get();
        const { job, result } = await client.getJob({ name });
        if (job?.state !== JobState.ENDED) return answer(stateOf(job!), linksOf(name).slice(0, 1));
        const evaluation = evaluationOf({ job, result });
        const variant = askedVariant(result);
        const findings = (variant?.findings ?? [])
          .slice(0, MAX_FINDINGS)
          .map((finding) => bounded(findingText(finding), MAX_FINDING));
        return answer(
          {
            ...stateOf(job),
            correct: evaluation.correct,
            stage: evaluation.stage,
            simulated: result?.provenance?.device?.simulated ?? false,
            findings,
            // What findings say already is not said twice.
            feedback: bounded(
              findings.length > 0 && !evaluation.correct
                ? lastLine(evaluation.text_feedback)
                : evaluation.text_feedback,
              MAX_FINDING,
            ),
            metrics: evaluation.metrics,
            ...(result?.tune && {
              table: tuneText(result.tune)
                .slice(0, MAX_TABLE_LINES)
                .map((line) => bounded(line, MAX_TABLE_LINE)),
            }),
            gates_failed: (variant?.gates ?? [])
              .filter(({ verdict }) => verdict === Verdict.FAIL)
              .slice(0, 10)
              .map(
                ({ title, value, comparison, target, unit, level }) =>
                  `${title}: ${value ?? '?'} ${unit}, wanted ${comparison} ${target} (${level})`,
              ),
          },
          linksOf(name),
        );
      }, log),
  );

  server.registerTool(
    'compare',
    {
      title: 'Compare with a champion',
      description:
        'Measures a candidate against a champion in interleaved blocks of one job, and says FASTER, WITHIN_MARGIN, SLOWER or NOT_JUDGED. The only way to say that one kernel is faster than another.',
      inputSchema: z.object({
        kernel: z.string(),
        champion: z.string(),
        parameters,
        champion_parameters: parameters,
        shapes,
        device: z.string().optional(),
        wait_seconds: waitSeconds,
      }),
      outputSchema: z.object({
        ...jobState,
        verdict: z.string().optional(),
        reason: z.string().optional(),
        ratios: z
          .array(z.object({ shape: z.string(), ratio: z.number(), low: z.number(), high: z.number() }))
          .optional(),
      }),
      annotations: starts,
    },
    ({ wait_seconds: seconds, ...asked }, toolContext) =>
      answered(async () => {
        const connection = await runner.get();
        const submitted = { ...asked, action: 'run' as const, labels: {}, seeds: undefined, samples: undefined };
        const started = await start(connection, await requestOf(submitted, connection, context));
        const { ended } = await waitFor(connection, { job: started.name, seconds }, toolContext);
        if (ended.state !== JobState.ENDED) return answer(stateOf(ended), linksOf(ended.name).slice(0, 1));
        const { result } = await connection.client.getJob({ name: ended.name });
        const comparison = askedVariant(result)?.comparison;
        return answer(
          {
            ...stateOf(ended),
            verdict: comparison ? ComparisonVerdict[comparison.verdict] : 'NOT_JUDGED',
            reason: bounded(
              comparison?.reason ?? 'the candidate did not come as far as the comparison: read its result',
              MAX_FINDING,
            ),
            ratios: (comparison?.shapes ?? []).flatMap(({ shape, time, simulated }) =>
              shape && time && !simulated
                ? [{ shape: formatShape(shape), ratio: time.ratio, low: time.low, high: time.high }]
                : [],
            ),
          },
          linksOf(ended.name),
        );
      }, log),
  );
}

interface Submitted {
  readonly action: (typeof ACTIONS)[number];
  readonly kernel: string;
  readonly parameters: Record<string, number>;
  readonly shapes: string[];
  readonly seeds?: number | undefined;
  readonly samples?: number | undefined;
  readonly champion?: string | undefined;
  readonly champion_parameters?: Record<string, number>;
  readonly device?: string | undefined;
  readonly labels: Record<string, string>;
  /** Of tune. */
  readonly values?: Record<string, number[]>;
  readonly max_variants?: number | undefined;
  readonly max_device_seconds?: number | undefined;
}

const COMPARING: readonly Submitted['action'][] = ['bench', 'run', 'tune'];

/** What only some actions heed is refused with the others. Errors: Refused. */
function requireHeeded({ action, champion, values = {}, max_variants, max_device_seconds }: Submitted): void {
  if (champion !== undefined && !COMPARING.includes(action))
    throw new Refused(`champion: only ${COMPARING.join(', ')} compare; the action is ${action}`);
  if (action === 'tune') return;
  const given = Object.entries({ max_variants, max_device_seconds }).filter(([, value]) => value !== undefined);
  const names = [...(Object.keys(values).length > 0 ? ['values'] : []), ...given.map(([name]) => name)];
  if (names.length > 0) throw new Refused(`${names.join(', ')}: of tune alone; the action is ${action}`);
}

async function requestOf(
  asked: Submitted,
  { client }: Connection,
  { kernelOf, referenceTo }: ToolContext,
): Promise<StartRequest> {
  const { action, samples, seeds } = asked;
  requireHeeded(asked);
  const shapeList = asked.shapes.map((text) => parseShape(text));
  const side = async (kernel: string, values: Record<string, number>) => ({
    kernel: await referenceTo(await kernelOf(kernel), client),
    variant: create(VariantSchema, {
      parameters: Object.fromEntries(Object.entries(values).map(([name, value]) => [name, BigInt(value)])),
    }),
  });
  const champion =
    asked.champion === undefined
      ? undefined
      : create(KernelVariantSchema, await side(asked.champion, asked.champion_parameters ?? {}));
  const common = {
    options: create(JobOptionsSchema, {
      requestId: crypto.randomUUID(),
      deviceId: asked.device ?? '',
      labels: asked.labels,
    }),
    ...(await side(asked.kernel, asked.parameters)),
  };
  const verify = { shapes: shapeList, ...(seeds !== undefined && { seedCount: seeds }) };
  const benchmark = {
    shapes: shapeList,
    ...(samples !== undefined && { protocol: { minSamples: samples, maxSamples: samples } }),
    ...(champion && { champion }),
  };
  switch (action) {
    case 'build':
      return { method: 'build', request: common };
    case 'verify':
      return { method: 'verify', request: { ...common, settings: verify } };
    case 'bench':
      return { method: 'benchmark', request: { ...common, settings: benchmark } };
    case 'profile':
      return { method: 'profile', request: { ...common, settings: shapeList[0] ? { shape: shapeList[0] } : {} } };
    case 'run':
      return { method: 'runExperiment', request: { ...common, verify, benchmark, noFallback: true } };
    case 'tune':
      return { method: 'tune', request: { ...common, ...tuneSettings(asked), shapes: shapeList, champion } };
  }
}

const tuneSettings = ({ values = {}, max_variants, max_device_seconds }: Submitted) => ({
  parameters: Object.entries(values).map(([name, all]) => ({ name, values: all.map(BigInt) })),
  maxTrials: max_variants ?? 0,
  maxSeconds: max_device_seconds ?? 0,
  seed: 1,
});

/** Starts a job and lets it go on: its name is all that is needed. */
async function start({ client }: Connection, { method, request }: StartRequest): Promise<Job> {
  for await (const { job } of client.start(method, request)) {
    const { job: started } = await client.getJob({ name: job });
    return started!;
  }
  throw new Refused('The runner started no job: try again');
}

/** The job when it has ended or the time is up, and what it was last seen to do. */
async function waitFor(
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
  return { ended: (await client.getJob({ name })).job!, doing };
}

function phaseOf({ payload }: JobEvent): string {
  switch (payload.case) {
    case 'phaseStarted':
      return `${Phase[payload.value.phase]?.toLowerCase() ?? 'a phase'} ${payload.value.variant}`.trim();
    case 'tunedVariant':
      return variantLine(payload.value);
    case 'verifyProgress':
      return `verify, case ${payload.value.caseIndex + 1} of ${payload.value.caseCount}`;
    default:
      return '';
  }
}

function stateOf({ name, state, outcome, summary }: Job): Record<string, unknown> {
  if (state !== JobState.ENDED) return { job: name, state: state === JobState.RUNNING ? 'running' : 'queued' };
  return { job: name, state: 'ended', outcome: Outcome[outcome], summary: bounded(summary, MAX_FINDING) };
}

/** What a result has no place for. */
export const linksOf = (job: string): ResourceLink[] =>
  [
    ['log', 'text/plain'],
    ['compiler', 'text/plain'],
    ['cases', 'text/plain'],
    ['profile', 'text/plain'],
    ['result', 'application/json'],
  ].map(([name, mimeType]) => ({ name: name!, uri: `flashcore://${job}/${name}`, mimeType: mimeType! }));

const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';
