/**
 * flashcore.yaml: the settings of a repository with its own kernels, found from any folder below the file. Other people
 * may have written it, so it can only choose among the user's logins and name folders in the repository.
 */
import { lstatSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { HAND_WRITTEN_BYTES, readForeignText, whyUnreadable } from '@flashcore/shared/files';
import { yamlFile } from '@flashcore/shared/kernels';
import { RunnerProfiles } from '@flashcore/shared/logins';
import type * as z from 'zod';
import { readSettings, parseWritten } from './settings.ts';
import { UsageError } from '../exit-code.ts';

const { matching, strict, text } = yamlFile;

export const PROJECT_FILE = 'flashcore.yaml';

/** False for a path out of the project and for a hidden folder such as .git. */
const isBelow = (folder: string): boolean =>
  folder !== '' &&
  !path.isAbsolute(folder) &&
  !/[\u0000-\u001f\\]/.test(folder) &&
  folder.split('/').every((part) => part === '.' || !part.startsWith('.'));
const folder = () =>
  text().refine(isBelow, { error: (issue) => yamlFile.mustBe(`a folder below ${PROJECT_FILE}`, issue.input) });

const PROJECT = strict({
  runner: text().describe('Runner where neither --runner nor $FLASHCORE_RUNNER names one: a fa-tui login').optional(),
  plan: matching(/^\w{1,64}$/, 'the name of a plan, such as merge')
    .describe('Plan of fa-tui run and watch-source; absent: the default of the runner')
    .optional(),
  kernels: folder().describe('Where fa-tui run NAME looks for the folder NAME').optional(),
  problems: folder().describe('Folder of problems beside those of flashcore, a folder each').optional(),
  champions: folder().describe('Where champions are saved to and loaded from (default: champions)').optional(),
});

/** The settings in a repository's flashcore.yaml, with absolute paths of its folders. */
export interface Project extends z.output<typeof PROJECT> {
  readonly file: string;
}

/**
 * The settings in the nearest flashcore.yaml, searched from a folder upward. Errors: UsageError with file, line and key
 * for an invalid file.
 */
export function findProject(from: string): Project | undefined {
  for (let at = path.resolve(from); ; at = path.dirname(at)) {
    const file = path.join(at, PROJECT_FILE);
    const content = contentOf(file);
    if (content !== undefined) return projectOf(file, content);
    if (at === path.dirname(at)) return undefined;
  }
}

function projectOf(file: string, content: string): Project {
  // A file with only comments is a project without settings.
  const nothing = content.split('\n').every((line) => /^\s*(#|$)/.test(line));
  const project: z.output<typeof PROJECT> = nothing ? {} : parseWritten(content, file, PROJECT);
  const { kernels, problems, champions, ...said } = project;
  const absolute = (name: string): string => {
    const place = path.join(path.dirname(file), name);
    if (leadsOut(path.dirname(file), place)) throw new UsageError(`${file}: ${place} is a link out of its folder`);
    return place;
  };
  return {
    file,
    ...said,
    ...(kernels !== undefined && { kernels: absolute(kernels) }),
    ...(problems !== undefined && { problems: absolute(problems) }),
    ...(champions !== undefined && { champions: absolute(champions) }),
  };
}

/**
 * True if a link leads the folder out of the project; if the folder does not exist, its nearest existing parent is
 * checked.
 */
function leadsOut(project: string, folder: string): boolean {
  let at = folder;
  while (at !== project && !lstatSync(at, { throwIfNoEntry: false })) at = path.dirname(at);
  const relative = path.relative(realpathSync(project), realpathSync(at));
  return relative === '..' || relative.startsWith(`..${path.sep}`);
}

function contentOf(file: string): string | undefined {
  try {
    return readForeignText(file, HAND_WRITTEN_BYTES);
  } catch (error) {
    // A folder that cannot be entered is treated as a folder without a project.
    if (['ENOENT', 'ENOTDIR', 'EACCES'].includes((error as NodeJS.ErrnoException).code ?? '')) return undefined;
    throw new UsageError(`${file}: cannot be read (${whyUnreadable(error)})`);
  }
}

/** The requested runner, and the place that named it. */
export interface AskedRunner {
  readonly name: string;
  readonly from: string;
  /**
   * True if a project's file chose the runner. Other people may have written that file, so the runner gets only the
   * credentials stored with its login, and none from flags or environment variables.
   */
  readonly byProject?: boolean;
}

/**
 * The runner that is used if no option names one: from $FLASHCORE_RUNNER, or else the project's file, or else the
 * settings; undefined for the embedded runner. Errors: UsageError.
 */
export function configuredRunner(environment: NodeJS.ProcessEnv): AskedRunner | undefined {
  if (environment.FLASHCORE_RUNNER) return { name: environment.FLASHCORE_RUNNER, from: '$FLASHCORE_RUNNER' };
  const project = findProject(process.cwd());
  if (project?.runner !== undefined)
    return { name: loginOf(project, project.runner, environment), from: project.file, byProject: true };
  const { runner } = readSettings(environment);
  return runner ? { name: runner, from: 'settings' } : undefined;
}

/** True if `fa-tui login` stored a runner with this name. */
export const isLogin = (name: string, environment: NodeJS.ProcessEnv): boolean =>
  Object.hasOwn(new RunnerProfiles(environment).list(), name);

/**
 * Requires the name of a login: with an address, the file's author could choose where the user's sources and token go.
 */
function loginOf({ file }: Project, name: string, environment: NodeJS.ProcessEnv): string {
  if (isLogin(name, environment)) return name;
  throw new UsageError(
    `${file}: runner: must be a login of yours, and there is no ${JSON.stringify(name.slice(0, 64))} among them: fa-tui login ADDRESS --name NAME makes one, --runner names another`,
  );
}
