/** Commands and views that the runner's texts name for people, and the agent's own tools in their place. */
const WORDS: readonly (readonly [people: RegExp, agents: string])[] = [
  [/on the error map \(view 2, or fa-tui verify\)/g, 'in flashcore://jobs/ID/cases, which the result links to'],
  [/fa-tui run [0-9a-f]{64} --plan (\w+)/g, 'submit the same kernel with action run and plan $1'],
  [/fa-tui (accept|reject|undo) (?:jobs\/)?([0-9a-f-]+)/g, 'the tool $1 with job $2'],
  [/, fa-tui note adds a note/g, ''],
];

/** A text of the runner in the words of the tools. */
export const inToolWords = (text: string): string =>
  WORDS.reduce((told, [people, agents]) => told.replaceAll(people, agents), text);
