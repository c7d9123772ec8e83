import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { effectiveSettings } from '../commands/effective-settings.ts';
import type { GlobalOptions } from '../commands/options.ts';
import { runProgram } from '../commands/program.ts';
import { initialState } from '../state/app-state.ts';
import { savedViewOf, withSavedView } from '../state/saved-view.ts';
import { paint, themeOf } from '../present/cells/theme.ts';
import { readSettings, settingsFile, settingsSchema } from './settings.ts';
import { codesOf, isStyle } from '../present/cells/style.ts';
import { ViewFile } from './view-file.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(path.join(tmpdir(), 'fa-settings-'))));
afterEach(() => rmSync(folder, { recursive: true }));

const environment = (): NodeJS.ProcessEnv => ({
  FA_TUI_CONFIG: path.join(folder, 'fa-tui.yaml'),
  XDG_STATE_HOME: folder,
});
const settingsOf = (text: string) => {
  writeFileSync(path.join(folder, 'fa-tui.yaml'), text);
  return readSettings(environment());
};

describe('settings', () => {
  test("are in the user's configuration folder, and may be missing", () => {
    expect(settingsFile({ HOME: '/home/u' })).toBe('/home/u/.config/flashcore/fa-tui.yaml');
    expect(settingsFile({ HOME: '/home/u', XDG_CONFIG_HOME: '/c' })).toBe('/c/flashcore/fa-tui.yaml');
    expect([
      settingsFile({ HOME: '/home/u', FLASHCORE_HOME: '/f' }),
      new ViewFile({ HOME: '/home/u', FLASHCORE_HOME: '/f' }).file,
    ]).toEqual(['/f/config/flashcore/fa-tui.yaml', '/f/state/flashcore/fa-tui-views.json']);
    expect(readSettings(environment())).toEqual({});
  });

  test('are read from YAML and from JSON', () => {
    const wanted = { colors: '16', ascii: true, theme: { good: 'bold green' } };
    expect(settingsOf('colors: "16"\nascii: true\ntheme: { good: bold green }\n')).toEqual(wanted);
    expect(settingsOf(JSON.stringify(wanted))).toEqual(wanted);
  });

  test.each([
    ['colours: none', /fa-tui\.yaml.*unknown key "colours" \(did you mean "colors"\?\)/],
    ['ascii: true\ntheme:\n  goood: green', /fa-tui\.yaml:3: theme: unknown key "goood" \(did you mean "good"\?\)/],
    ['theme: { good: viridian }', /theme\.good: must be words of bold, .* got "viridian"/],
    ['colors: truecolour', /colors: must be one of auto, truecolor.*did you mean "truecolor"/],
    ['mouse: yes please', /mouse: must be true or false, got "yes please"/],
    ['hooks: { "ssh://box": { start: reboot } }', /hooks\.ssh:\/\/box\.start: must be a list, got "reboot"/],
    ['hooks: { box: { stop_after_idle_minutes: 5 } }', /must have a stop command beside it/],
    ['hooks: { box: { usd_per_hour: -1 } }', /usd_per_hour: must be dollars from 0/],
    ['a: [', /not valid YAML/],
  ])('%s is refused with file, line and remedy', (text, message) => {
    expect(() => settingsOf(text)).toThrow(message);
  });

  test('the published schema has every key with its meaning, and no other key', () => {
    const schema = settingsSchema() as {
      properties: Record<string, { description?: string }>;
      additionalProperties: boolean;
    };
    expect(schema.additionalProperties).toBe(false);
    expect(Object.entries(schema.properties).filter(([, { description }]) => description === undefined)).toEqual([]);
  });

  test('fa-tui config shows, finds and checks the file, and gives exit code 2 for a mistake', async () => {
    const run = async (action: string, ...flags: string[]): Promise<{ code: number; text: string }> => {
      let text = '';
      const stream = { isTTY: false, write: (piece: string) => void (text += piece) };
      return {
        code: await runProgram(['config', action, ...flags], {
          stdin: {},
          stdout: stream,
          stderr: stream,
          environment: environment(),
        }),
        text,
      };
    };
    expect(await run('validate')).toMatchObject({ code: 0, text: expect.stringMatching(/there is none/) as string });
    writeFileSync(path.join(folder, 'fa-tui.yaml'), 'mouse: true');
    const shown = await run('show', '--runner', 'gpu01:50051');
    expect(shown.code).toBe(0);
    const lines = shown.text.split('\n').map((line) => line.trim().split(/ {2,}/));
    expect(lines).toContainEqual(['runner', 'gpu01:50051', '--runner']);
    expect(lines).toContainEqual(['mouse', 'true', expect.stringMatching(/fa-tui\.yaml$|…$/)]);
    expect(lines).toContainEqual(['restore_view', 'true', 'default']);
    expect((await run('path')).text).toBe(`${folder}/fa-tui.yaml\n`);
    writeFileSync(path.join(folder, 'fa-tui.yaml'), 'mice: true');
    expect(await run('validate')).toMatchObject({
      code: 2,
      text: expect.stringMatching(/unknown key "mice"/) as string,
    });
    expect((await run('shov')).code).toBe(2);
  });
});

test("each setting has the first value given among flag, environment, file and default, in the setting's own order", () => {
  writeFileSync(path.join(folder, 'fa-tui.yaml'), 'runner: filed\nascii: true\ncolors: auto\ntheme: { good: bold }');
  const file = `${folder}/fa-tui.yaml`;
  const from = (options: Partial<GlobalOptions>, variables: NodeJS.ProcessEnv) =>
    Object.fromEntries(
      effectiveSettings({ color: 'auto', ...options }, { ...environment(), ...variables }).map(
        ({ name, value, from }) => [name, [value, from]],
      ),
    );
  const plain = from({}, {});
  expect(plain).toMatchObject({
    runner: ['filed', file],
    ascii: [true, file],
    colors: ['auto', 'default'],
    mouse: [false, 'default'],
    editor: ['vi', 'default'],
    'theme.good': ['bold', file],
  });
  expect(from({}, { FLASHCORE_RUNNER: 'gpu01', NO_COLOR: '1', EDITOR: 'ed', FLASHCORE_TOKEN: 'secret' })).toMatchObject(
    {
      runner: ['gpu01', '$FLASHCORE_RUNNER'],
      colors: ['none', '$NO_COLOR'],
      editor: ['ed', '$EDITOR'],
      token: ['set, not shown', '$FLASHCORE_TOKEN'],
    },
  );
  expect(from({ runner: 'mine', color: 'never' }, { FLASHCORE_RUNNER: 'gpu01' })).toMatchObject({
    runner: ['mine', '--runner'],
    colors: ['never', '--color'],
  });
});

describe('theme', () => {
  test("the user's choice overrides the environment", () => {
    expect(themeOf({ NO_COLOR: '1' }, {})).toEqual({ colors: 'none', ascii: false });
    expect(themeOf({ NO_COLOR: '1', FA_TUI_ASCII: '1' }, { colors: 'truecolor', ascii: false })).toEqual({
      colors: 'truecolor',
      ascii: false,
    });
    expect(themeOf({ TERM: 'xterm' }, { colors: 'auto' }).colors).toBe('16');
  });

  test('a locale without UTF-8 gets ASCII, unless the user chose otherwise', () => {
    const locales = [{ LC_ALL: 'C' }, { LANG: 'de_DE.ISO-8859-1' }, { LC_ALL: 'C.UTF-8' }, { LC_ALL: '', LANG: '' }];
    expect(locales.map((locale) => themeOf(locale).ascii)).toEqual([true, true, false, false]);
    expect(themeOf({ LC_ALL: 'C' }, { ascii: false }).ascii).toBe(false);
  });

  test('a screen reader gets neither boxes nor plots, and every cell keeps its position', () => {
    const theme = themeOf({ INK_SCREEN_READER: 'true', NO_COLOR: '1' });
    expect(paint([{ text: '│ ✓ 42 % ▕██▌⠒⢒ │' }], theme)).toBe('  ✓ 42 %         ');
    expect(paint([{ text: '@@', heat: 3, isInk: true }], theme)).toBe('  ');
  });

  test('in ASCII the sign of an uncertainty differs from that of a modelled figure', () => {
    const ascii = (...texts: string[]): string =>
      paint(
        texts.map((text) => ({ text })),
        { colors: 'none', ascii: true },
      );
    expect([ascii('5.760 us ±0.1 %'), ascii('95 % ', '±0.1 %'), ascii('~3.33 %')]).toEqual([
      '5.760 us+-0.1 %',
      '95 %+-0.1 %',
      '~3.33 %',
    ]);
  });

  test("a role has the user's style at every color depth", () => {
    const good = (colors: 'truecolor' | '256' | '16' | 'none', style: string): string =>
      paint([{ text: 'x', role: 'good' }], themeOf({}, { colors, styles: { good: style } }));
    expect(good('truecolor', 'bold #ff8000')).toBe('\u001b[38;2;255;128;0m\u001b[1mx\u001b[22m\u001b[39m');
    expect(good('256', '#ff8000')).toBe('\u001b[38;5;214mx\u001b[39m');
    expect(good('16', '#ff8000')).toBe('\u001b[93mx\u001b[39m');
    expect(good('none', 'bold #ff8000')).toBe('\u001b[1mx\u001b[22m');
    expect(codesOf('208 bright-blue', '16')).toEqual([
      ['93', 39],
      ['94', 39],
    ]);
    expect(['bold green', '#abc', '256', 'bright-mauve', 'default'].map(isStyle)).toEqual([
      true,
      false,
      false,
      false,
      true,
    ]);
  });
});

describe('the saved view', () => {
  const state = initialState({ runner: { label: 'r', embedded: false }, columns: 80, rows: 24, now: 0 });
  const view = {
    ...savedViewOf(state),
    view: 'gates' as const,
    job: 'jobs/1',
    historyFilter: 'wmma',
    jobList: 'leaderboard' as const,
    mouse: true,
  };

  test('is restored for the runner that it was saved for, and for no other', () => {
    new ViewFile(environment()).write('a:1', view);
    new ViewFile(environment()).write('b:1', { ...view, view: 'host' });
    const file = new ViewFile(environment());
    expect([file.read('a:1').view?.view, file.read('b:1').view?.view, file.read('c:1')]).toEqual([
      'gates',
      'host',
      { view: undefined },
    ]);
    expect(savedViewOf({ ...withSavedView(state, file.read('a:1').view!), attached: 'jobs/1' })).toEqual(view);
  });

  test('a program that is still open keeps the time of the visit current, and the view that another one saved', () => {
    const file = new ViewFile(environment());
    file.touch('a:1', { ...view, leftAt: 1 });
    expect(file.read('a:1').view).toEqual({ ...view, leftAt: 1 });
    file.write('a:1', { ...view, view: 'host', leftAt: 2 });
    file.touch('a:1', { ...view, leftAt: 3 });
    expect(file.read('a:1').view).toEqual({ ...view, view: 'host', leftAt: 3 });
    // A program in which nobody has pressed a key since.
    file.touch('a:1', { ...view, leftAt: 2 });
    expect(file.read('a:1').view?.leftAt).toBe(3);
    file.write('a:1', { ...view, leftAt: 2 });
    expect(file.read('a:1').view).toEqual({ ...view, leftAt: 3 });
    file.write('a:1', { ...view, leftAt: Number.MAX_SAFE_INTEGER });
    file.touch('a:1', { ...view, leftAt: 4 });
    expect(file.read('a:1').view?.leftAt, 'after a visit in the future').toBe(4);
  });

  test.each(['{"version":1,"runners":{"a:1":{"view":"nowhere"}}}', '{"version":1', ''])(
    'a file with content %s is reported and set aside',
    (text) => {
      const file = new ViewFile(environment());
      file.write('a:1', view);
      writeFileSync(file.file, text);
      expect(file.read('a:1').problem).toMatch(/could not be read .*unreadable$/);
      expect(readFileSync(`${file.file}.unreadable`, 'utf8')).toBe(text);
      file.write('a:1', view);
      expect(new ViewFile(environment()).read('a:1')).toEqual({ view });
    },
  );

  test('of a newer version is neither used nor changed', () => {
    const newer = '{"version":2,"runners":{}}';
    const file = new ViewFile(environment());
    file.write('a:1', view);
    writeFileSync(file.file, newer);
    expect(file.read('a:1').problem).toMatch(/newer version/);
    file.write('a:1', view);
    expect(readFileSync(file.file, 'utf8')).toBe(newer);
  });
});
