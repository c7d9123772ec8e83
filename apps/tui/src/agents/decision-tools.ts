import type { McpServer } from '@modelcontextprotocol/server';
import {
  DecisionKind,
  type Champion,
  type Evidence,
  type LeaderboardEntry,
  TIMING_MODES,
} from '@flashcore/shared/contract';
import { acceptedNotes, formatShape, parseCase } from '@flashcore/shared/kernels';
import * as z from 'zod';
import { Refused, answer, answered, leftOut, jobNamed, jobNameField } from './answers.ts';
import { MEASURED_ON, measuredOn } from './job-answers.ts';
import type { ToolContext } from './tool-context.ts';

const MAX_LISTED = 20;
const READ_ONLY = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };
const DECIDES = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false };
const note = z.string().max(4096).default('').describe('why');

/** Registers champions and leaderboard and, if agents may decide, accept, reject and undo. */
export function registerDecisionTools(server: McpServer, context: ToolContext): void {
  registerChampions(server, context);
  registerLeaderboard(server, context);
  if (!context.mayDecide) return;
  registerAccept(server, context);
  registerReject(server, context);
  registerUndo(server, context);
}

function registerChampions(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'champions',
    {
      title: 'Champions',
      description: 'The builds that others are compared with, and what each acceptance rests on.',
      inputSchema: z.strictObject({ kernel: z.string().default('').describe('id; empty: of all kernels') }),
      outputSchema: z.object({
        champions: z.array(
          z.object({
            job: z.string().describe('what `over` of accept names'),
            label: z.string(),
            device: z.string(),
            shapes: z.array(z.string()),
            plan: z.string(),
            best: z.boolean().describe('the fastest of its device'),
            accepted_by: z.string(),
            measured_on: MEASURED_ON,
            cases: z.string().optional().describe('absent: accepted before ranked runs existed'),
            seeds: z.number().optional().describe('inputs for each case'),
            comparison: z.string().optional(),
            over: z.string().optional().describe('the champion that it was compared with, or none'),
            gates_digest: z.string().optional(),
            source_digest: z.string(),
          }),
        ),
        ...leftOut,
      }),
      annotations: READ_ONLY,
    },
    ({ kernel }) =>
      answered(async () => {
        const { client } = await runner.get();
        const { champions } = await client.listChampions({ kernelId: kernel });
        return answer({ champions: champions.slice(0, MAX_LISTED).map(championAnswer) });
      }, log),
  );
}

const championAnswer = ({ decision, ...champion }: Champion): Record<string, unknown> => ({
  job: champion.job,
  label: champion.label,
  device: champion.deviceName,
  shapes: champion.shapes.map(formatShape),
  plan: champion.plan,
  best: champion.best,
  accepted_by: decision?.client ?? '',
  ...measuredOn(champion),
  ...(decision?.evidence && evidenceAnswer(decision.evidence)),
  source_digest: champion.sourceDigest,
});

const evidenceAnswer = ({ cases, seeds, comparison, over, gatesDigest }: Evidence): Record<string, unknown> => ({
  cases,
  seeds: seeds.length,
  comparison,
  over,
  gates_digest: gatesDigest,
});

function registerLeaderboard(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'leaderboard',
    {
      title: 'Leaderboard',
      description:
        'The best ranked result of each person and kernel, and SDPA, fastest first. Ranks that tie are equal.',
      inputSchema: z.strictObject({
        device: z.string().default('').describe('name or id; empty: the host’s first'),
        problem: z.string().default('').describe('what the kernels compute; empty: attention'),
        shape: z
          .string()
          .optional()
          .describe("BxHxSxD, c appended when causal, NAME=VALUE,… or a case's name; default: the canonical one"),
        cases: z.string().default('').describe('rank by the weighted geometric mean over this case set'),
        mode: z.enum(['hot', 'cold']).optional(),
        limit: z.number().int().min(1).max(MAX_LISTED).default(10),
      }),
      outputSchema: z.object({
        entries: z.array(
          z.object({
            rank: z.number(),
            label: z.string(),
            job: z.string(),
            owner: z.string().optional(),
            us: z.number().optional().describe('median, or mean of medians, microseconds'),
            over_sdpa: z.number().optional(),
            champion: z.boolean(),
            measured_on: MEASURED_ON,
          }),
        ),
        empty_because: z.string().optional(),
        ...leftOut,
      }),
      annotations: READ_ONLY,
    },
    ({ device, problem, shape, cases, mode, limit }) =>
      answered(async () => {
        if (shape !== undefined && cases !== '') throw new Refused('shape, cases: give one of them');
        const { client } = await runner.get();
        const { entries, emptyReason } = await client.getLeaderboard({
          deviceName: device,
          problem,
          caseSet: cases,
          ...(shape !== undefined && { shape: parseCase(shape) }),
          ...(mode !== undefined && { mode: TIMING_MODES[mode] }),
        });
        return answer({
          entries: entries.slice(0, limit).map(entryAnswer),
          ...(emptyReason !== undefined && { empty_because: emptyReason }),
        });
      }, log),
  );
}

function entryAnswer(entry: LeaderboardEntry): object {
  const { rank, label, job, owner, latency, mean, speedup, champion } = entry;
  const us = mean?.us ?? latency?.p50Us;
  return {
    rank,
    label,
    job,
    ...(owner !== undefined && { owner }),
    ...(us !== undefined && { us }),
    ...(speedup !== undefined && { over_sdpa: speedup }),
    champion,
    ...measuredOn(entry),
  };
}

function registerAccept(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'accept',
    {
      title: 'Accept as champion',
      description:
        'Makes the build of a passed ranked run the champion, with which others are then compared. First ask the person that you work for.',
      inputSchema: z.strictObject({
        job: jobNameField,
        over: z.string().describe('the champion that it was compared with, or none: `over` of its result'),
        note,
        notes: z.string().default('').describe('NOTES.md as it is now, if only that was missing when the job ran'),
      }),
      outputSchema: z.object({ champion: z.string(), replaced: z.string().optional(), ...leftOut }),
      annotations: DECIDES,
    },
    ({ job, over, note: why, notes }) =>
      answered(async () => {
        const { client } = await runner.get();
        const { champion, replaced } = await client.accept({
          job: await jobNamed(client, job),
          over: over === 'none' ? over : await jobNamed(client, over, 'over'),
          note: why,
          notes: acceptedNotes(notes),
          requestId: crypto.randomUUID(),
        });
        return answer({ champion: champion?.label ?? '', ...(replaced && { replaced: replaced.label }) });
      }, log),
  );
}

const decided = { decision: z.string(), job: z.string() };

function registerReject(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'reject',
    {
      title: 'Reject a result',
      description:
        'Records that a result is not wanted; if it is champion, it no longer is. First ask the person that you work for.',
      inputSchema: z.strictObject({ job: jobNameField, note }),
      outputSchema: z.object({ ...decided, no_longer_champion: z.array(z.string()), ...leftOut }),
      annotations: DECIDES,
    },
    ({ job, note: why }) =>
      answered(async () => {
        const { client } = await runner.get();
        const request = { job: await jobNamed(client, job), note: why, requestId: crypto.randomUUID() };
        const { decision, removed } = await client.reject(request);
        return answer({
          decision: DecisionKind[decision?.kind ?? 0],
          job: request.job,
          no_longer_champion: removed.map(({ label }) => label),
        });
      }, log),
  );
}

function registerUndo(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'undo',
    {
      title: 'Undo a decision',
      description: 'Takes back the latest decision about a job. First ask the person that you work for.',
      inputSchema: z.strictObject({ job: jobNameField, note }),
      outputSchema: z.object({ ...decided, champions: z.array(z.string()).describe('that are left'), ...leftOut }),
      annotations: DECIDES,
    },
    ({ job, note: why }) =>
      answered(async () => {
        const { client } = await runner.get();
        const request = { job: await jobNamed(client, job), note: why, requestId: crypto.randomUUID() };
        const { decision, champions } = await client.undo(request);
        return answer({
          decision: DecisionKind[decision?.kind ?? 0],
          job: request.job,
          champions: champions.map(({ label }) => label),
        });
      }, log),
  );
}
