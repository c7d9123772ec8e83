import { ResourceTemplate, type McpServer } from '@modelcontextprotocol/server';
import { GetJobResponseSchema, JobState } from '@flashcore/shared/contract';
import { toJson } from '@bufbuild/protobuf';
import { askedVariant } from '../search/evaluation.ts';
import { bounded, compilerText, profileText, verifyText } from '../search/feedback.ts';
import { Refused, jobNamed } from './answers.ts';
import type { ToolContext } from './tool-context.ts';

const MAX_RESOURCE_BYTES = 256 * 1024;

/** Registers flashcore://jobs/ID/log, compiler, cases, profile and result, which tools' answers link to. */
export function registerResources(server: McpServer, { runner }: ToolContext): void {
  server.registerResource(
    'job',
    new ResourceTemplate('flashcore://jobs/{id}/{part}', { list: undefined }),
    { title: 'Of a job: log, compiler, cases, profile, result', mimeType: 'text/plain' },
    async (uri, { id, part }) => {
      const name = await jobNamed((await runner.get()).client, String(id));
      const text = bounded(await partOf(name, String(part)), MAX_RESOURCE_BYTES);
      return { contents: [{ uri: uri.href, mimeType: part === 'result' ? 'application/json' : 'text/plain', text }] };
    },
  );

  async function partOf(name: string, part: string): Promise<string> {
    const { client } = await runner.get();
    const response = await client.getJob({ name });
    const variant = askedVariant(response.result);
    switch (part) {
      case 'log':
        return logOf(name, response.job?.state === JobState.ENDED);
      case 'result':
        return JSON.stringify(toJson(GetJobResponseSchema, response), null, 1);
      case 'compiler':
        return variant ? compilerText(variant) : '';
      case 'cases':
        return variant ? verifyText(variant) : '';
      case 'profile':
        return variant ? profileText(variant) : '';
      default:
        throw new Refused(`flashcore://${name}/${part}: must end in log, compiler, cases, profile or result`);
    }
  }

  /** The lines of an ended job's log. For a running job, the lines that arrive within half a second. */
  async function logOf(name: string, ended: boolean): Promise<string> {
    const { client } = await runner.get();
    const lines: string[] = [];
    let bytes = 0;
    const signal = ended ? undefined : AbortSignal.timeout(500);
    try {
      for await (const { payload } of client.watch(name, { signal, onExpired: () => undefined })) {
        if (payload.case !== 'logLine') continue;
        const line = `${payload.value.source}: ${payload.value.text}`;
        bytes += Buffer.byteLength(line) + 1;
        if (bytes > MAX_RESOURCE_BYTES) break;
        lines.push(line);
      }
    } catch (error) {
      if (!signal?.aborted) throw error;
    }
    return lines.join('\n');
  }
}
