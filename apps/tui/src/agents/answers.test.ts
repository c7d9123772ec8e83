import { expect, test } from 'vitest';
import { inToolWords } from './answers.ts';

const BUILD = 'a1'.repeat(32);

test.each([
  [
    'See where the errors are, on the error map (view 2, or fa-tui verify): whole rows point to the sum',
    'See where the errors are, in flashcore://jobs/ID/cases, which the result links to: whole rows point to the sum',
  ],
  [
    `the champion is now k of jobs/1a2b; compare with that: fa-tui run ${BUILD} --plan merge`,
    'the champion is now k of jobs/1a2b; compare with that: submit the same kernel with action run and plan merge',
  ],
  [
    `fa-tui reject jobs/1a2b-3c, or ask an admin to, then fa-tui run ${BUILD} --plan final`,
    'the tool reject with job 1a2b-3c, or ask an admin to, then submit the same kernel with action run and plan final',
  ],
  [
    '1a2b3c4d is the champion already: fa-tui undo 1a2b3c4d takes that back, fa-tui note adds a note',
    '1a2b3c4d is the champion already: the tool undo with job 1a2b3c4d takes that back',
  ],
])("a remedy for an agent names the agent's tools instead of commands: %s", (people, agents) => {
  expect(inToolWords(people)).toBe(agents);
});
