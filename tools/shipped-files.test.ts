import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { withoutDeadLinks } from './shipped-files.ts';

test('a link to a missing file becomes plain text, and other links stay', () => {
  const markdown =
    '[here](bundle-runner.ts#x) and [gone](../nowhere/a.ts), [web](https://example.org), [part](#part), [gone too](nowhere.md#there), [1.0 [0.9, 1.1]](nowhere)';
  expect(withoutDeadLinks(markdown, fileURLToPath(new URL('x.md', import.meta.url)))).toBe(
    '[here](bundle-runner.ts#x) and gone, [web](https://example.org), [part](#part), gone too, 1.0 [0.9, 1.1]',
  );
});
