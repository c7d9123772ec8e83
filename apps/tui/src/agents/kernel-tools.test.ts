/** Tests answers about foreign kernels, which may be large and contain hidden characters. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { create } from '@bufbuild/protobuf';
import type { CallToolResult, McpServer } from '@modelcontextprotocol/server';
import { KernelSchema } from '@flashcore/shared/contract';
import { expect, onTestFinished, test } from 'vitest';
import { registerKernelTools } from './kernel-tools.ts';
import type { ToolContext } from './tool-context.ts';

type Tool = (args: Record<string, unknown>) => Promise<CallToolResult>;

/** The tools by name, for a runner with these kernels. Each kernel is a folder. */
function toolsOver(kernels: readonly unknown[]): ReadonlyMap<string, Tool> {
  const tools = new Map<string, Tool>();
  const server = { registerTool: (name: string, _: unknown, tool: Tool) => tools.set(name, tool) };
  const context = {
    runner: { get: () => Promise.resolve({ client: { listKernels: () => Promise.resolve({ kernels }) } }) },
    log: (text: string) => {
      throw new Error(text);
    },
    kernelOf: (folder: string) => Promise.resolve({ kind: 'folder', folder }),
  };
  registerKernelTools(server as unknown as McpServer, context as unknown as ToolContext);
  return tools;
}

async function call(tools: ReadonlyMap<string, Tool>, name: string, args: Record<string, unknown>) {
  const { content, structuredContent, isError } = await tools.get(name)!(args);
  const text = content.map((part) => (part.type === 'text' ? part.text : '')).join('');
  expect(isError, text).not.toBe(true);
  expect(Buffer.byteLength(text)).toBeLessThanOrEqual(8192);
  return structuredContent as Record<string, unknown>;
}

function folderWith(source: string): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'fc-agents-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const parameters = Array.from(
    { length: 30 },
    (_, index) => `  P${index}: { values: [1, 2], default: 1, about: "${'é'.repeat(150)}" }`,
  );
  writeFileSync(
    path.join(folder, 'kernel.yaml'),
    `id: mine
title: t
lesson: l
source: mine.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
parameters:
${parameters.join('\n')}
launches: [{ entry: k, grid: [1, 1, 1], block: [32, 1, 1], arguments: [Q] }]
`,
  );
  mkdirSync(path.join(folder, 'more'));
  for (let index = 0; index < 200; ++index) writeFileSync(path.join(folder, `more/${'h'.repeat(90)}${index}.h`), '');
  writeFileSync(path.join(folder, 'mine.cu'), source);
  return folder;
}

test('the pages of a file add up to the file without its invisible characters, and no page is too long', async () => {
  const visible = `${'// "quoted" 文字 😀\n'.repeat(700)}end`;
  const folder = folderWith(`\u202e${visible}\u{e0061}`);
  const tools = toolsOver([]);
  let read = '';
  let offset: unknown = 0;
  while (offset !== undefined) {
    const page = await call(tools, 'read_kernel', { kernel: folder, offset });
    expect(page['left_out']).toEqual(expect.arrayContaining(['files had 202 elements']));
    read += page['text'] as string;
    offset = page['next_offset'];
  }
  expect(read).toBe(visible);
});

test('kernels come in pages that fit into an answer, and each kernel is on one page', async () => {
  const kernels = Array.from({ length: 70 }, (_, index) =>
    create(KernelSchema, { kernelId: `kernel_${index}`, title: 't'.repeat(500), lesson: '"'.repeat(500) }),
  );
  const tools = toolsOver(kernels);
  const names: string[] = [];
  let offset: unknown = 0;
  while (offset !== undefined) {
    const page = await call(tools, 'list_kernels', { include_faulty: false, offset });
    names.push(...(page['kernels'] as { kernel: string }[]).map(({ kernel }) => kernel));
    offset = page['next_offset'];
  }
  expect(names).toEqual(kernels.map(({ kernelId }) => kernelId));
});
