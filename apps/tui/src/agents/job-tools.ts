import type { McpServer } from '@modelcontextprotocol/server';
import { JobState } from '@flashcore/shared/contract';
import * as z from 'zod';
import { answer, answered, leftOut, jobNamed, jobNameField } from './answers.ts';
import { waitForJob } from './awaited-job.ts';
import { MEASURED_ON, comparisonAnswer, jobState, linksOf, resultAnswer, stateOf } from './job-answers.ts';
import { ACTIONS, requestOf, startJob } from './submitted-job.ts';
import type { ToolContext } from './tool-context.ts';

/** Limit on waiting in one call, because Codex and Claude Desktop end a call after 60 s. */
const MAX_WAIT_SECONDS = 45;

const STARTS = { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false };
/** Limit on the jobs in a list. */
const MAX_LISTED = 20;

const READ_ONLY = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

const parameters = z.record(z.string(), z.number().int()).default({}).describe('build-time parameters, NAME to value');
const shapes = z
  .array(z.string())
  .default([])
  .describe("BxHxSxD, c appended when causal, NAME=VALUE,… or a case's name; empty: the usual ones");
const waitSeconds = z.number().min(0).max(MAX_WAIT_SECONDS).default(MAX_WAIT_SECONDS);

/**
 * Registers submit, wait, jobs, cancel, result and compare. Jobs have durable names and continue when no client waits
 * for them.
 */
export function registerJobTools(server: McpServer, context: ToolContext): void {
  registerSubmit(server, context);
  registerWait(server, context);
  registerJobs(server, context);
  registerCancel(server, context);
  registerResult(server, context);
  registerCompare(server, context);
}

function registerSubmit(server: McpServer, context: ToolContext): void {
  const { runner, log } = context;
  server.registerTool(
    'submit',
    {
      title: 'Start a job',
      description:
        'Builds, verifies, benchmarks, profiles a kernel, runs all of it with the gates (run), or searches its variants for the fastest right one (tune). Answers at once with the job’s name: wait for it, then read its result. A folder’s files are uploaded as they are now.',
      inputSchema: z.strictObject({
        action: z.enum(ACTIONS),
        kernel: z.string().describe('id of a kernel of the runner, or a folder of this machine with a kernel.yaml'),
        parameters,
        shapes,
        seeds: z.number().int().min(1).max(100).optional().describe('fresh random inputs a shape (default 5)'),
        plan: z.string().optional().describe('run: a plan of the runner’s gates; default: its first'),
        cases: z.string().optional().describe('verify, run: a case set of the runner instead of shapes'),
        samples: z.number().int().min(1).max(1_000_000).optional().describe('take exactly this many timed samples'),
        champion: z.string().optional().describe('kernel or folder to compare with in the same job (bench, run, tune)'),
        values: z
          .record(z.string(), z.array(z.number().int()).min(1))
          .default({})
          .describe('tune: values to try, NAME to list; a parameter that is not named stays; empty: all of all'),
        max_variants: z
          .number()
          .int()
          .min(1)
          .optional()
          .describe('tune: maximum number of variants, drawn if there are more'),
        max_device_seconds: z.number().positive().optional().describe('tune: begin no measurement beyond it'),
        device: z.string().optional(),
        labels: z.record(z.string(), z.string()).default({}).describe('to find the job by'),
      }),
      outputSchema: z.object(jobState),
      annotations: STARTS,
    },
    (asked) =>
      answered(async () => {
        const connection = await runner.get();
        const request = await requestOf(asked, connection, context);
        return answer(stateOf(await startJob(connection, request)));
      }, log),
  );
}

function registerWait(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'wait',
    {
      title: 'Wait for a job',
      description: 'Waits until a job ends, at most 45 s; call again while it runs. Progress is reported meanwhile.',
      inputSchema: z.strictObject({ job: jobNameField, wait_seconds: waitSeconds }),
      outputSchema: z.object({ ...jobState, doing: z.string().optional().describe('what it does now') }),
      annotations: READ_ONLY,
    },
    ({ job, wait_seconds: seconds }, toolContext) =>
      answered(async () => {
        const connection = await runner.get();
        const name = await jobNamed(connection.client, job);
        const { ended, doing } = await waitForJob(connection, { job: name, seconds }, toolContext);
        return answer({ ...stateOf(ended), ...(ended.state !== JobState.ENDED && doing !== '' && { doing }) });
      }, log),
  );
}

function registerJobs(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'jobs',
    {
      title: 'List jobs',
      description: 'Jobs that wait or run, or with all also those that ended, newest first.',
      inputSchema: z.strictObject({
        all: z.boolean().default(false).describe('also jobs that have ended'),
        limit: z.number().int().min(1).max(MAX_LISTED).default(MAX_LISTED),
      }),
      outputSchema: z.object({ jobs: z.array(z.object({ ...jobState, label: z.string() })), ...leftOut }),
      annotations: READ_ONLY,
    },
    ({ all, limit }) =>
      answered(async () => {
        const { client } = await runner.get();
        const states = all ? [JobState.UNSPECIFIED] : [JobState.RUNNING, JobState.QUEUED];
        const lists = await Promise.all(states.map((state) => client.listJobs({ state, pageSize: limit })));
        const jobs = lists.flatMap((list) => list.jobs).slice(0, limit);
        return answer({ jobs: jobs.map((job) => ({ ...stateOf(job), label: job.label })) });
      }, log),
  );
}

function registerCancel(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'cancel',
    {
      title: 'Cancel a job',
      description: 'Ends a job that waits or runs; its result has the findings so far.',
      inputSchema: z.strictObject({ job: jobNameField }),
      outputSchema: z.object(jobState),
      annotations: { ...STARTS, destructiveHint: true, idempotentHint: true },
    },
    ({ job }) =>
      answered(async () => {
        const { client } = await runner.get();
        const name = await jobNamed(client, job);
        await client.cancelJob({ name });
        return answer(stateOf((await client.getJob({ name })).job!));
      }, log),
  );
}

function registerResult(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'result',
    {
      title: 'Read a result',
      description:
        'The results of an ended job: right or wrong, findings with place and remedy, figures. The log, the compiler’s messages and the whole result are linked.',
      inputSchema: z.strictObject({ job: jobNameField }),
      outputSchema: z.object({
        ...jobState,
        correct: z.boolean().optional(),
        stage: z.string().optional(),
        device: z.string().optional(),
        simulated: z
          .boolean()
          .optional()
          .describe('true: the emulator; its times are not GPU times, do not chase them'),
        findings: z.array(z.string()).optional(),
        feedback: z.string().optional(),
        metrics: z.record(z.string(), z.number()).optional(),
        table: z.array(z.string()).optional().describe('of tune: its variants, the best first; a star: Pareto front'),
        ranked: z.boolean().optional().describe('whether it may decide who is champion'),
        not_ranked: z.array(z.string()).optional().describe('all reasons why not'),
        measured_on: MEASURED_ON,
        acceptable: z
          .object({
            possible: z.boolean(),
            reason: z.string(),
            replaces: z.string().optional(),
            over: z.string().optional().describe('what accept must name'),
          })
          .optional(),
        gates_failed: z.array(z.string()).optional(),
      }),
      annotations: READ_ONLY,
    },
    ({ job: asked }) =>
      answered(async () => {
        const { client } = await runner.get();
        const name = await jobNamed(client, asked);
        const { job, result } = await client.getJob({ name });
        if (job?.state !== JobState.ENDED) return answer(stateOf(job!), linksOf(name).slice(0, 1));
        return answer(resultAnswer(job, result), linksOf(name));
      }, log),
  );
}

function registerCompare(server: McpServer, context: ToolContext): void {
  const { runner, log } = context;
  server.registerTool(
    'compare',
    {
      title: 'Compare with a champion',
      description:
        'Measures a candidate against a champion in interleaved blocks of one job, and says FASTER, WITHIN_MARGIN, SLOWER or NOT_JUDGED. The only way to say that one kernel is faster than another.',
      inputSchema: z.strictObject({
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
      annotations: STARTS,
    },
    ({ wait_seconds: seconds, ...asked }, toolContext) =>
      answered(async () => {
        const connection = await runner.get();
        const submitted = { ...asked, action: 'run' as const, labels: {}, seeds: undefined, samples: undefined };
        const started = await startJob(connection, await requestOf(submitted, connection, context));
        const { ended } = await waitForJob(connection, { job: started.name, seconds }, toolContext);
        if (ended.state !== JobState.ENDED) return answer(stateOf(ended), linksOf(ended.name).slice(0, 1));
        // The runner may be away at this moment, and the job has ended.
        const { result } = await connection.client.getJob({ name: ended.name }, { resume: {} });
        return answer(comparisonAnswer(ended, result), linksOf(ended.name));
      }, log),
  );
}
