import type { CallToolResult } from '@modelcontextprotocol/server';
import { FlashcoreError } from '@flashcore/shared/contract';
import * as z from 'zod';
import { errorText } from '@flashcore/shared/text';
import { bounded } from '../search/feedback.ts';
import { fitted } from './fitted.ts';

/** Most of a tool's answer: what hosts put before a model without cutting it. */
export const MAX_ANSWER_BYTES = 8 * 1024;

/** A place where the rest can be read. */
export interface ResourceLink {
  readonly name: string;
  readonly uri: string;
  readonly mimeType: string;
}

/** What every answer may have. */
export const leftOut = {
  left_out: z.array(z.string()).optional().describe('fields that were shortened, with what they had'),
};

/** An answer with its document, harmless and short enough, and links to what has no place in it. */
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

/** A refusal that says what is wrong and what to do: for the model to read, no error of the protocol. */
export const refusal = (text: string): CallToolResult => ({
  content: [{ type: 'text', text: bounded(text, MAX_ANSWER_BYTES) }],
  isError: true,
});

/** A tool's work, with its errors as refusals. What is a fault of this program keeps its stack in the log. */
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

/** Arguments that make no sense, with the remedy. */
export class Refused extends Error {
  override readonly name = 'Refused';
}
