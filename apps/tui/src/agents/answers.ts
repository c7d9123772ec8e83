import type { CallToolResult } from '@modelcontextprotocol/server';
import { FlashcoreError } from '@flashcore/shared/contract';
import { bounded } from '../search/feedback.ts';

/** Most of a tool's answer: what hosts put before a model without cutting it. */
export const MAX_ANSWER_BYTES = 8 * 1024;

/** A place where the rest can be read. */
export interface ResourceLink {
  readonly name: string;
  readonly uri: string;
  readonly mimeType: string;
}

/** An answer with its document, and links to what has no place in it. */
export const answer = (document: Record<string, unknown>, links: readonly ResourceLink[] = []): CallToolResult => ({
  content: [
    { type: 'text', text: JSON.stringify(document) },
    ...links.map((link) => ({ type: 'resource_link' as const, ...link })),
  ],
  structuredContent: document,
});

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
    return refusal(`A fault of fa-tui itself: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** Arguments that make no sense, with the remedy. */
export class Refused extends Error {
  override readonly name = 'Refused';
}
