/**
 * Pairs of a pattern and a replacement. The pattern finds a command or view that the runner's texts name for people,
 * and the replacement names the tool that an agent uses instead.
 */
const WORDS: readonly (readonly [people: RegExp, agents: string])[] = [
  [/on the error map \(view 2, or fa-tui verify\)/g, 'in flashcore://jobs/ID/cases, which the result links to'],
  [/fa-tui run [0-9a-f]{64} --plan (\w+)/g, 'submit the same kernel with action run and plan $1'],
  [/fa-tui (accept|reject|undo) (?:jobs\/)?([0-9a-f-]+)/g, 'the tool $1 with job $2'],
  [/, fa-tui note adds a note/g, ''],
];

/** A text of the runner, with each command for people replaced by the tool that an agent uses instead. */
export const inToolWords = (text: string): string =>
  WORDS.reduce((told, [people, agents]) => told.replaceAll(people, agents), text);
