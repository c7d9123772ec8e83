import { expect, test } from 'vitest';
import { initialState } from '../../state/app-state.ts';
import { commandLogPane } from './command-log.ts';

test("escape sequences in a folder's name do not reach the terminal from the command log", () => {
  const state = {
    ...initialState({ runner: { label: 'here', embedded: true }, columns: 80, rows: 24, now: 0 }),
    commandLog: [{ time: 0, text: "fa-tui run './\u001b[2Jmine\u0007'" }],
  };
  const { body } = commandLogPane(state, { kind: 'commands', selected: 0 }, { width: 80, height: 5 });
  const shown = body.flat().map(({ text }) => text);
  expect(shown.join('')).toContain('mine');
  expect(shown.join('')).not.toMatch(/[\u0000-\u001f\u007f]/);
});
