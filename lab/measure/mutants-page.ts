/** `npm run mutants:page`: writes docs/mutants.md from a run of flashcore-runner check-problem. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { installedProblem, installedProblems } from '@flashcore/shared/kernels';
import { formatMarkdown } from '@flashcore/tools/format-markdown';

const PAGE = fileURLToPath(new URL('../../docs/mutants.md', import.meta.url));
const RUNNER = fileURLToPath(new URL('../../apps/runner/dist/main.js', import.meta.url));

const INTRO = `# Mutants

Mistakes that a kernel could make, and on which cases and inputs the judge finds them. \`npm run mutants:page\` writes
this page from a run of \`flashcore-runner check-problem\`; [problems.md](problems.md#mutants) says what a mutant is.
`;

function section(id: string): string {
  const { mutants, title } = installedProblem(id);
  const { status, stdout, stderr } = spawnSync(process.execPath, [RUNNER, 'check-problem', id], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`${id} must pass its check, got status ${status}: ${stdout}${stderr}`);
  const rows = mutants.map(({ name, about }) => `| \`${name}\` | ${about} |`);
  return [
    `## ${id}`,
    `${title.replaceAll('*', '\\*')}.`,
    ['| mutant | mistake |', '| --- | --- |', ...rows].join('\n'),
    `\`\`\`text\n${stdout.trim()}\n\`\`\``,
  ].join('\n\n');
}

const checked = installedProblems()
  .filter((id) => installedProblem(id).mutants.length > 0)
  .toSorted();
writeFileSync(PAGE, await formatMarkdown([INTRO, ...checked.map(section)].join('\n'), PAGE));
