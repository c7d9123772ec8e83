import { applyPatch, parsePatch } from 'diff';
import { FlashcoreError } from '@flashcore/shared/contract';
import { BROUGHT_PATHS } from '@flashcore/shared/kernels';
import { entryOf, errorText } from '@flashcore/shared/text';
import { MAX_SOURCE_BYTES, manifestOf, requireSourcePath, sourceBytes, type SourceFiles } from './kernel-source.ts';
import { NoProposal, type Answer } from './protocol.ts';

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
    const after = applyPatch(before, change);
    if (after === false)
      throw new NoProposal(
        `The patch does not apply to ${name}: context and removed lines must be those of the base, exactly`,
      );
    result.set(name, after);
  }
  return Object.fromEntries(result);
}

function readPatch(patch: string): ReturnType<typeof parsePatch> {
  try {
    return parsePatch(patch);
  } catch (error) {
    throw new NoProposal(`The patch is not a unified diff: ${errorText(error)}`);
  }
}
