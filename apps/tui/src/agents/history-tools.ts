import type { McpServer } from '@modelcontextprotocol/server';
import { Outcome, parityText } from '@flashcore/shared/contract';
import * as z from 'zod';
import { answer, answered, leftOut } from './answers.ts';
import { MEASURED_ON, measuredOn, rankingAnswer } from './job-answers.ts';
import type { ToolContext } from './tool-context.ts';

const MAX_LISTED = 20;

/** Registers the tool `history`, which lists earlier measurements. */
export function registerHistoryTools(server: McpServer, { runner, log }: ToolContext): void {
  server.registerTool(
    'history',
    {
      title: 'Earlier experiments',
      description: 'Ended experiments, newest first. Times of the emulator (simulated) are not GPU times.',
      inputSchema: z.strictObject({
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
            ranked: z.boolean().optional().describe('absent: from before ranked runs'),
            not_ranked: z.array(z.string()).optional().describe('why it decides nothing'),
            measured_on: MEASURED_ON,
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
            ...(experiment.ranking && rankingAnswer(experiment.ranking)),
            ...measuredOn(experiment),
            labels: Object.fromEntries(
              Object.entries(experiment.job?.labels ?? {}).map(([name, value]) => [name, value.slice(0, 80)]),
            ),
          })),
        });
      }, log),
  );
}
