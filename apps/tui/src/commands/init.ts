import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { sanitize } from '../present/cells/cell-text.ts';
import { PROJECT_FILE } from '../settings/project.ts';
import type { CommandContext } from './context.ts';
import { ExitCode, UsageError } from '../exit-code.ts';

const KERNELS = 'kernels';
const PROBLEMS = 'problems';

const TEXT = `# What fa-tui takes from this repository, in every folder below this file.

# Where \`fa-tui run NAME\` looks for the folder NAME, after the current folder.
kernels: ${KERNELS}
# Problems of your own, a folder each with problem.yaml and cases.yaml (docs/problems.md).
problems: ${PROBLEMS}
# Where \`fa-tui accept --save\` and \`fa-tui champions\` keep champions and their sources.
champions: champions
# The plan of \`fa-tui run\` and \`fa-tui watch-source\`: its gates decide. Without it the runner's default.
# plan: merge
# The runner, a name that \`fa-tui login\` stored; --runner and $FLASHCORE_RUNNER come before it.
# runner: gpu
`;

/** `fa-tui init`: makes the current folder a project. Existing files stay unchanged. */
export function init(context: CommandContext): Promise<ExitCode> {
  const file = path.resolve(PROJECT_FILE);
  for (const name of [KERNELS, PROBLEMS]) {
    const found = statSync(name, { throwIfNoEntry: false });
    if (found && !found.isDirectory())
      throw new UsageError(`${path.resolve(name)} must be a folder, but it is a file: rename the file first`);
  }
  try {
    writeFileSync(file, TEXT, { flag: 'wx' });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(
      code === 'EEXIST'
        ? `${file} exists already: edit it; fa-tui config show says what holds`
        : `${file}: cannot be written (${code}): go to a folder of your own`,
    );
  }
  for (const name of [KERNELS, PROBLEMS]) mkdirSync(name, { recursive: true });
  if (context.options.json) context.document({ file });
  else
    context.report([
      `${sanitize(file)}  made; commit it`,
      '',
      `  fa-tui new ${KERNELS}/my_kernel  a kernel to start from; say in its NOTES.md what it changes`,
      '  fa-tui run my_kernel          build, verify, bench, profile, gates, in any folder of this repository',
      '  fa-tui accept JOB --save      its result as champion, kept in champions/',
      `  fa-tui problem check NAME     a problem of your own in ${PROBLEMS}/NAME: docs/problems.md has one to copy`,
    ]);
  return Promise.resolve(ExitCode.PASSED);
}
