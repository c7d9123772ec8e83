import type { McpServer } from '@modelcontextprotocol/server';
import { Outcome, parityText } from '@flashcore/shared/contract';
import * as z from 'zod';
import { answer, answered, leftOut } from './answers.ts';
import type { ToolContext } from './tool-context.ts';

const MAX_LISTED = 20;

/** history and accept: what was measured before, and what becomes of it. */
export function registerHistoryTools(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'history',
    {
      title: 'Earlier experiments',
      description: 'Ended experiments, newest first. Times of the emulator (simulated) are not GPU times.',
      inputSchema: z.object({
        kernel: z.string().optional(),
        labels: z.record(z.string(), z.string()).default({}),
        limit: z.number().int().min(1).max(MAX_LISTED).default(10),
      }),
      outputSchema: z.object({
        experiments: z.array(
          z.object({
            job: z.string(),
            label: z.string(),
            outcome: z.string(),
            device: z.string(),
            simulated: z.boolean(),
            cases: z.string(),
            median_us: z.number().optional(),
            speedup_over_champion: z.number().optional(),
            labels: z.record(z.string(), z.string()),
          }),
        ),
        ...leftOut,
      }),
      annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
    },
    ({ kernel = '', labels, limit }) =>
      answered(async () => {
        const { client } = await runner.get();
        const { experiments } = await client.listExperiments({ kernelId: kernel, labels, pageSize: limit });
        return answer({
          experiments: experiments.map((experiment) => ({
            job: experiment.job?.name ?? '',
            label: experiment.job?.label ?? '',
            outcome: Outcome[experiment.job?.outcome ?? 0],
            device: experiment.deviceName,
            simulated: experiment.simulated,
            cases: parityText(experiment),
            ...(experiment.p50Us !== undefined && !experiment.simulated && { median_us: experiment.p50Us }),
            ...(experiment.speedupOverChampion !== undefined && {
              speedup_over_champion: experiment.speedupOverChampion,
            }),
            labels: Object.fromEntries(
              Object.entries(experiment.job?.labels ?? {}).map(([name, value]) => [name, value.slice(0, 80)]),
            ),
          })),
        });
      }, log),
  );

  server.registerTool(
    'accept',
    {
      title: 'Accept as champion',
      description:
        'Makes the build of an experiment that passed the champion, which others are compared with from then on. Ask the person that you work for before.',
      inputSchema: z.object({ job: z.string(), note: z.string().max(4096).default('').describe('why') }),
      outputSchema: z.object({ champion: z.string(), replaced: z.string().optional(), ...leftOut }),
      annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: false },
    },
    ({ job, note }) =>
      answered(async () => {
        const { client } = await runner.get();
        const { champion, replaced } = await client.accept({ job, note, requestId: crypto.randomUUID() });
        return answer({ champion: champion?.label ?? '', ...(replaced && { replaced: replaced.label }) });
      }, log),
  );
}
