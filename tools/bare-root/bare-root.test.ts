import { expect, test } from 'vitest';
import { leftFiles, readmeCommands } from './readme-commands.ts';

test('readmeCommands() reads the two commands of README.md, and refuses any other number of commands', () => {
  expect(readmeCommands()).toEqual({ start: 'npm ci && npm start', test: 'npm ci && npm test' });
  expect(() => readmeCommands('# x\n\n## Two commands\n\n```sh\nnpm ci && npm start  # y\n```\n')).toThrow(
    /must have two lines .*, got 1$/,
  );
});

test('leftFiles() lists new files, except those of npm, flashcore and the clone', () => {
  const user = { home: '/home/it is me', id: 1000 };
  const before = new Set(['etc', 'tmp', 'home/it is me']);
  const after = new Set([
    ...before,
    ...['home/it is me/.npm/_logs/1', 'home/it is me/.flashcore', 'home/it is me/flashcore/node_modules'],
    ...['home/it is me/.local', 'home/it is me/.local/state/flashcore/views', 'tmp/flashcore-1000'],
  ]);
  const left = ['tmp/fc-1', 'home/it is me/.config', 'home/it is me/.flashcore-2', 'home/it is me/.local/share/x'];
  expect(leftFiles(before, new Set([...after, ...left]), user)).toEqual(left);
});
