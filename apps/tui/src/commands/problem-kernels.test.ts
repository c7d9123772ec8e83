import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { kernelsOfProblem } from './problem-kernels.ts';

test('a kernel that cannot be read hides no other kernel of its problem', async () => {
  const project = mkdtempSync(path.join(tmpdir(), 'fc-problem-kernels-'));
  onTestFinished(() => rmSync(project, { recursive: true }));
  vi.spyOn(process, 'cwd').mockReturnValue(project);
  const kernel = (name: string): string => path.join(project, 'kernels', name);
  for (const name of ['broken', 'folder/kernel.yaml', 'pipe']) mkdirSync(kernel(name), { recursive: true });
  writeFileSync(path.join(project, 'flashcore.yaml'), 'kernels: kernels\n');
  writeFileSync(kernel('broken/kernel.yaml'), 'problem: rmsnorm\nid: [\n');
  execFileSync('mkfifo', [kernel('pipe/kernel.yaml')]);
  expect((await kernelsOfProblem('rmsnorm')).map(({ id }) => id)).toEqual(['rmsnorm']);
});
