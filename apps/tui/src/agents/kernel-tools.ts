import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { McpServer } from '@modelcontextprotocol/server';
import { FindingKind, type Kernel } from '@flashcore/shared/contract';
import { readNotes } from '@flashcore/shared/kernels';
import { entryOf, plainText } from '@flashcore/shared/text';
import * as z from 'zod';
import { runnerKernels } from '../connection/data-directory.ts';
import { bounded } from '../search/feedback.ts';
import { manifestOf, readSource } from '../search/kernel-source.ts';
import { MAX_ANSWER_BYTES, Refused, answer, answered, leftOut } from './answers.ts';
import { documentBytes, fitted, type Document } from './fitted.ts';
import type { ToolContext } from './tool-context.ts';

const PAGE_CHARACTERS = 6000;
/** Limit on the other fields of an answer that contains a page of text. */
const MAX_FACTS_BYTES = 3000;
const MAX_NOTES = 3000;
const ABOUT = 160;

/**
 * Registers list_kernels, read_kernel and notes, which list kernels and show what is known about them. They change
 * nothing.
 */
export function registerKernelTools(server: McpServer, { runner, log, kernelOf }: ToolContext): void {
  const readOnly = { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false };

  server.registerTool(
    'list_kernels',
    {
      title: 'List kernels',
      description: 'Kernels of the runner in the order of the ladder, with what each teaches, a page at a time.',
      inputSchema: z.strictObject({
        include_faulty: z.boolean().default(false).describe('also kernels with a fault on purpose'),
        offset: z.number().int().min(0).default(0),
      }),
      outputSchema: z.object({
        kernels: z.array(
          z.object({
            kernel: z.string(),
            title: z.string(),
            lesson: z.string(),
            after: z.string(),
            parameters: z.array(z.string()),
            expected_finding: z.string().optional(),
          }),
        ),
        next_offset: z.number().optional().describe('set while there is more'),
        ...leftOut,
      }),
      annotations: readOnly,
    },
    ({ include_faulty: includeFaulty, offset }) =>
      answered(async () => {
        const { client } = await runner.get();
        const { kernels } = await client.listKernels({ includeFaulty });
        const page = kernelsPage(kernels.slice(offset).map(shortKernel));
        const end = offset + page.length;
        return answer({ kernels: page, ...(end < kernels.length && { next_offset: end }) });
      }, log),
  );

  server.registerTool(
    'read_kernel',
    {
      title: 'Read a kernel',
      description:
        'A kernel’s manifest facts and one of its files, at most 6000 characters at a time. Headers of primitives/ and mechanisms/ can be read as files of any kernel.',
      inputSchema: z.strictObject({
        kernel: z.string().describe('id of a kernel of the runner, or a folder of this machine with a kernel.yaml'),
        file: z.string().optional().describe('default: the translation unit'),
        offset: z.number().int().min(0).default(0),
      }),
      outputSchema: z.object({
        kernel: z.string(),
        title: z.string(),
        limits: z.array(z.string()),
        parameters: z.array(z.string()),
        files: z.array(z.object({ path: z.string(), characters: z.number() })),
        file: z.string(),
        text: z.string(),
        next_offset: z.number().optional().describe('set while there is more'),
        ...leftOut,
      }),
      annotations: readOnly,
    },
    ({ kernel, file, offset }) =>
      answered(async () => {
        const { client } = await runner.get();
        const place = await kernelOf(kernel);
        const files = await readSource(place, client);
        const manifest = manifestOf(files);
        const name = file ?? manifest.source;
        const text = entryOf(files, name) ?? sharedHeader(name);
        if (text === undefined)
          throw new Refused(
            `file: must be one of ${Object.keys(files).join(', ')}, or a header of primitives/ or mechanisms/; there is no ${name}`,
          );
        const facts = {
          kernel: manifest.id,
          title: manifest.title,
          limits: manifest.limits.map(({ require, because }) => `${require.text}: ${because}`),
          parameters: Object.entries(manifest.parameters).map(
            ([id, parameter]) =>
              `${id}=${parameter.values.join('|')}, default ${parameter.default}: ${parameter.about}`,
          ),
          files: Object.entries(files).map(([id, content]) => ({ path: id, characters: content.length })),
          file: name,
        };
        return answer(withPage(fitted(facts, MAX_FACTS_BYTES), plainText(text), offset));
      }, log),
  );

  server.registerTool(
    'notes',
    {
      title: 'What was tried',
      description: 'Lab notes of a kernel: what people tried, what helped and what did not. Read them before a change.',
      inputSchema: z.strictObject({ kernel: z.string() }),
      outputSchema: z.object({ kernel: z.string(), notes: z.string(), truncated: z.boolean(), ...leftOut }),
      annotations: readOnly,
    },
    ({ kernel }) =>
      answered(async () => {
        const place = await kernelOf(kernel);
        const text = place.kind === 'folder' ? await readNotes(place.folder) : await runnerNotes(place.id);
        const notes = bounded(text, MAX_ANSWER_BYTES - MAX_NOTES);
        return answer({ kernel, notes: notes || 'There are no notes', truncated: notes.length < text.length });
      }, log),
  );

  async function runnerNotes(id: string): Promise<string> {
    const { client } = await runner.get();
    return (await client.getKernel({ kernelId: id })).kernel?.notes ?? '';
  }
}

const shortKernel = (kernel: Kernel): Document => ({
  kernel: kernel.kernelId,
  title: bounded(kernel.manifestError ?? kernel.title, ABOUT),
  lesson: bounded(kernel.lesson, ABOUT),
  after: kernel.after ?? '',
  parameters: kernel.parameters.map(({ name, values }) => `${name}=${values.join('|')}`),
  ...(kernel.expectedFinding && { expected_finding: FindingKind[kernel.expectedFinding] }),
});

/** The first kernels, as many as fit into an answer but at least one. */
function kernelsPage(kernels: readonly Document[]): readonly Document[] {
  let count = kernels.length;
  while (count > 1 && documentBytes({ kernels: kernels.slice(0, count), next_offset: 9999 }) > MAX_ANSWER_BYTES)
    count -= 1;
  return kernels.slice(0, count);
}

/** The page of `text` that begins at `offset`, as long as an answer that also contains `facts` has room for. */
function withPage(facts: Document, text: string, offset: number): Record<string, unknown> {
  const pageTo = (end: number) => ({
    ...facts,
    text: text.slice(offset, end),
    ...(end < text.length && { next_offset: end }),
  });
  let end = offset + PAGE_CHARACTERS;
  // Quotes, newlines and non-ASCII characters take more bytes in JSON than characters in the text.
  while (documentBytes(pageTo(end)) > MAX_ANSWER_BYTES) end -= 100;
  return pageTo(endsInsidePair(text, end) ? end - 1 : end);
}

const endsInsidePair = (text: string, end: number): boolean => /[\ud800-\udbff]/.test(text.charAt(end - 1));

function sharedHeader(name: string): string | undefined {
  if (!/^(primitives|mechanisms)\/[\w-]+\.cuh$/.test(name)) return undefined;
  const file = path.join(runnerKernels(), name);
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined;
}
