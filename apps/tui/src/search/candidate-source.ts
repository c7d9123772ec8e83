import { applyPatch, parsePatch } from 'diff';
import { FlashcoreError } from '@flashcore/shared/contract';
import { BROUGHT_PATHS } from '@flashcore/shared/kernels';
import { DeadlinePassed, entryOf, errorText, withinDeadline } from '@flashcore/shared/text';
import { MAX_SOURCE_BYTES, manifestOf, requireSourcePath, sourceBytes, type SourceFiles } from './kernel-source.ts';
import { NoProposal, type Answer } from './protocol.ts';

type Change = ReturnType<typeof parsePatch>[number];

/** Time limit on applying a patch. An honest patch to the largest source takes far less. */
const PATCH_LIMIT_MS = 1_000;

/** A candidate of a search: its files and its parameters for the compiler. */
export interface CandidateSource {
  readonly files: SourceFiles;
  readonly parameters: Readonly<Record<string, number>>;
}

/** Applies an answer to its base. Errors: NoProposal, with the mistake and its remedy. */
export function candidateOf(base: CandidateSource, answer: Answer, kernelId: string): CandidateSource {
  const { files = {}, patch = '', parameters = {} } = answer;
  const changed = { ...base.files, ...(patch === '' ? {} : patched(base.files, patch)), ...files };
  try {
    for (const name of Object.keys(changed)) requireOwnSource(name, base.files, changed);
    const { id } = manifestOf(changed);
    if (id !== kernelId)
      throw new NoProposal(`kernel.yaml: id: must stay ${kernelId}, is ${id}: a search is about one kernel`);
  } catch (error) {
    if (error instanceof FlashcoreError) throw new NoProposal(error.message);
    throw error;
  }
  if (sourceBytes(changed) > MAX_SOURCE_BYTES)
    throw new NoProposal(`The files have ${sourceBytes(changed)} bytes, ${MAX_SOURCE_BYTES} are the most`);
  return { files: changed, parameters: { ...base.parameters, ...parameters } };
}

/** Refuses changes to files that judge the kernel. Errors: NoProposal, INVALID_REQUEST. */
function requireOwnSource(name: string, before: SourceFiles, changed: SourceFiles): void {
  if (!BROUGHT_PATHS.includes(name)) return requireSourcePath(name);
  if (entryOf(changed, name) !== entryOf(before, name))
    throw new NoProposal(`${name}: must stay as it is: a search is about one problem`);
}

/** The files that a unified diff changes. */
function patched(files: SourceFiles, patch: string): SourceFiles {
  const changes = readPatch(patch);
  if (!changes.some(({ hunks }) => hunks.length > 0))
    throw new NoProposal('The patch changes no file: it must be a unified diff with ---, +++ and @@');
  const result = new Map<string, string>();
  for (const change of changes) {
    const name = ((change.newFileName === '/dev/null' ? change.oldFileName : change.newFileName) ?? '').replace(
      /^[ab]\//,
      '',
    );
    const before = result.get(name) ?? entryOf(files, name) ?? (change.oldFileName === '/dev/null' ? '' : undefined);
    if (before === undefined)
      throw new NoProposal(
        `The patch changes ${name}, which is not there; the files are ${Object.keys(files).join(', ')}`,
      );
    const after = applied(before, change, name);
    if (after === false)
      throw new NoProposal(
        `The patch does not apply to ${name}: context and removed lines must be those of the base, exactly`,
      );
    result.set(name, after);
  }
  return Object.fromEntries(result);
}

/**
 * The text after a change; false if the change does not fit. applyPatch() tries a hunk at every line between the one
 * that it names and the one where it fits, so a short patch could take hours. Errors: NoProposal.
 */
function applied(before: string, change: Change, name: string): string | false {
  try {
    return withinDeadline(PATCH_LIMIT_MS, () => applyPatch(before, change));
  } catch (error) {
    if (!(error instanceof DeadlinePassed)) throw error;
    throw new NoProposal(
      `The patch takes more than ${PATCH_LIMIT_MS / 1000} s to apply to ${name}: name the lines at which its hunks fit, or send the whole file`,
    );
  }
}

function readPatch(patch: string): Change[] {
  try {
    return parsePatch(patch);
  } catch (error) {
    throw new NoProposal(`The patch is not a unified diff: ${errorText(error)}`);
  }
}
