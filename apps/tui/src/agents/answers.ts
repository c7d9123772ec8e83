import type { CallToolResult } from '@modelcontextprotocol/server';
import type { RunnerClient } from '@flashcore/shared/client';
import { FlashcoreError } from '@flashcore/shared/contract';
import * as z from 'zod';
import { errorText } from '@flashcore/shared/text';
import { bounded } from '../search/feedback.ts';
import { fitted } from './fitted.ts';
import { UsageError } from '../exit-code.ts';
import { resolveJobName } from '../session/job-name.ts';

/** Limit on the length of a tool's answer. MCP hosts pass answers of this length to the model without cutting them. */
export const MAX_ANSWER_BYTES = 8 * 1024;

/** A link to the part of an answer that did not fit. */
export interface ResourceLink {
  readonly name: string;
  readonly uri: string;
  readonly mimeType: string;
}

/** Fields that can appear in every answer. */
export const leftOut = {
  left_out: z.array(z.string()).optional().describe('fields that were shortened, with what they had'),
};

/** An answer with its document, cleaned and shortened, and links to the parts that do not fit. */
export function answer(document: Record<string, unknown>, links: readonly ResourceLink[] = []): CallToolResult {
  const told = fitted(document, MAX_ANSWER_BYTES);
  return {
    content: [
      { type: 'text', text: JSON.stringify(told) },
      ...links.map((link) => ({ type: 'resource_link' as const, ...link })),
    ],
    structuredContent: told,
  };
}

/** A refusal that tells the model its mistake and the remedy. It is an answer of the tool, not a protocol error. */
export const refusal = (text: string): CallToolResult => ({
  content: [{ type: 'text', text: bounded(inToolWords(text), MAX_ANSWER_BYTES) }],
  isError: true,
});

/**
 * Pairs of a pattern and a replacement. The pattern finds a command or view that the runner's texts name for people,
 * and the replacement names the tool that an agent uses instead.
 */
const WORDS: readonly (readonly [people: RegExp, agents: string])[] = [
  [/on the error map \(view 2, or fa-tui verify\)/g, 'in flashcore://jobs/ID/cases, which the result links to'],
  [/fa-tui run [0-9a-f]{64} --plan (\w+)/g, 'submit the same kernel with action run and plan $1'],
  [/fa-tui (accept|reject|undo) (?:jobs\/)?([0-9a-f-]+)/g, 'the tool $1 with job $2'],
  [/, fa-tui note adds a note/g, ''],
];

/** A text of the runner, with each command for people replaced by the tool that an agent uses instead. */
export const inToolWords = (text: string): string =>
  WORDS.reduce((told, [people, agents]) => told.replaceAll(people, agents), text);

/** Runs a tool and turns its errors into refusals. The stack of a bug in this program goes to the log. */
export async function answered(
  work: () => Promise<CallToolResult>,
  log: (text: string) => void,
): Promise<CallToolResult> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Refused || error instanceof FlashcoreError) return refusal(error.message);
    log(error instanceof Error ? (error.stack ?? error.message) : String(error));
    return refusal(`A fault of fa-tui itself: ${errorText(error)}`);
  }
}

/** An error about invalid arguments, with the remedy. */
export class Refused extends Error {
  override readonly name = 'Refused';
}

export const jobNameField = z.string().describe('as submit gave it, or its first digits');

/** The full name of a job. Errors: Refused, naming the tools that list jobs. */
export async function jobNamed(client: RunnerClient, text: string, field = 'job'): Promise<string> {
  try {
    return await resolveJobName(client, text);
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'JOB_NOT_FOUND')
      throw new Refused(`${field}: no job's name begins with ${text}: the tools jobs and history list them`);
    if (error instanceof UsageError) throw new Refused(`${field}: ${error.message}`);
    throw error;
  }
}
