/** The user's settings: a YAML or JSON file with a schema. The terminal determines the settings that the file omits. */
import path from 'node:path';
import { FlashcoreError } from '@flashcore/shared/contract';
import { HAND_WRITTEN_BYTES, configFolder, readForeignText } from '@flashcore/shared/files';
import { yamlFile } from '@flashcore/shared/kernels';
import * as z from 'zod';
import { entryOf } from '@flashcore/shared/text';
import type { ThemeChoice } from '../present/cells/theme.ts';
import { STYLE_WORDS, isStyle } from '../present/cells/style.ts';
import type { Hooks } from '../remote/hooks.ts';
import { ROLES } from '../present/roles.ts';
import { UsageError } from '../exit-code.ts';
import { END_NOTICES, type EndNotice } from '../state/app-state.ts';

const { finite, flag, integer, listOf, mapOf, matching, oneOf, strict, text } = yamlFile;

const STYLE = matching(/./, `words of ${STYLE_WORDS.join(', ')}, a colour number from 0 to 255 or #rrggbb`).refine(
  isStyle,
  {
    error: (issue) =>
      yamlFile.mustBe(`words of ${STYLE_WORDS.join(', ')}, a colour number from 0 to 255 or #rrggbb`, issue.input),
  },
);
const ROLE_STYLES = Object.fromEntries(ROLES.map((role) => [role, STYLE.optional()])) as Record<
  (typeof ROLES)[number],
  z.ZodOptional<typeof STYLE>
>;

const COMMAND = listOf(text())
  .refine((words) => words.length > 0, 'must be a program and its arguments, got an empty list')
  .describe('Program and arguments, without a shell; ["sh", "-c", "…"] has one');

const HOOKS = strict({
  start: COMMAND.optional(),
  stop: COMMAND.optional(),
  login: text().describe('The command that renews the login of ssh or of a hook: named where one expired').optional(),
  usd_per_hour: finite()
    .refine((rate) => rate >= 0 && rate <= 10_000, 'must be dollars from 0 to 10000')
    .describe('What the host costs while it runs')
    .optional(),
  stop_after_idle_minutes: integer(1, 24 * 60)
    .describe('Run stop when no job ran for so long; absent: never')
    .optional(),
  limit_minutes: integer(1, 120).describe('For each command, and for the runner to answer (default 10)').optional(),
}).refine(
  ({ stop, stop_after_idle_minutes: idle }) => stop !== undefined || idle === undefined,
  'stop_after_idle_minutes: must have a stop command beside it, got none',
);

export const SETTINGS = strict({
  runner: text()
    .describe(
      'Runner where neither --runner nor $FLASHCORE_RUNNER names one: host:port, ssh://host, unix:/path, or a name of fa-tui login',
    )
    .optional(),
  start_runner: flag()
    .describe('Start the runner behind ssh:// where none runs there; fa-tui host install brings it there')
    .optional(),
  hooks: mapOf(text(), HOOKS)
    .describe("Commands that start and stop a runner's host, by the runner's address or name")
    .optional(),
  colors: oneOf(['auto', 'truecolor', '256', '16', 'none'])
    .describe('Colours of the terminal program; auto: as NO_COLOR, COLORTERM and TERM say')
    .optional(),
  background: oneOf(['auto', 'light', 'dark'])
    .describe('Background of the terminal; auto: as the terminal answers to OSC 11, else dark')
    .optional(),
  ascii: flag().describe('ASCII in place of box-drawing and block characters').optional(),
  mouse: flag()
    .describe('The wheel scrolls and a click selects; the terminal then selects text only with Shift')
    .optional(),
  inline: flag()
    .describe('Draw below the prompt and leave the log in the scrollback, in place of a screen of its own')
    .optional(),
  restore_view: flag().describe('Open as it was left: view, job, filters (default true)').optional(),
  editor: text().describe('Editor of the key e; default: $VISUAL, else $EDITOR, else vi').optional(),
  end_notice: oneOf(END_NOTICES)
    .describe('What the end of a job longer than 10 s does: rings the bell (default), notifies by OSC 9, or nothing')
    .optional(),
  keys: mapOf(text(), listOf(text()))
    .describe('Keys of a command, by its id as docs/keys.md lists them, for example rerun: [ctrl+r]')
    .optional(),
  theme: strict(ROLE_STYLES).describe('How meanings look, for example good: "bold green"').optional(),
});

const LIMIT_MINUTES = 10;

export type Settings = z.output<typeof SETTINGS>;

/**
 * $FA_TUI_CONFIG, or else fa-tui.yaml next to runners.json in the user's configuration folder. JSON is also valid YAML.
 */
export const settingsFile = (environment: NodeJS.ProcessEnv): string =>
  environment['FA_TUI_CONFIG'] || path.join(configFolder(environment), 'fa-tui.yaml');

/**
 * The file's settings; empty if there is no file. Errors: UsageError with file, line, key, the expected value and, for
 * an unknown key, the most similar known key.
 */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const file = settingsFile(environment);
  const content = contentOf(file);
  if (content === undefined || content.trim() === '') return {};
  return parseWritten(content, file, SETTINGS);
}

/** The parsed content of a file that users write. Errors: UsageError. */
export function parseWritten<Schema extends z.ZodType>(
  content: string,
  file: string,
  schema: Schema,
): z.output<Schema> {
  try {
    return yamlFile.parseYamlFile(content, file, schema).value;
  } catch (error) {
    if (error instanceof FlashcoreError && error.reason === 'INVALID_MANIFEST') throw new UsageError(error.message);
    throw error;
  }
}

function contentOf(file: string): string | undefined {
  try {
    return readForeignText(file, HAND_WRITTEN_BYTES);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** JSON Schema of the file, for editors. */
export const settingsSchema = (): unknown => ({
  title: 'Settings of fa-tui',
  ...z.toJSONSchema(SETTINGS, { io: 'input' }),
});

/** The hooks for a runner's host, found by one of the runner's names. */
export function hooksOf(settings: Settings, names: readonly string[]): { runner: string; hooks: Hooks } | undefined {
  const runner = names.find((name) => Object.hasOwn(settings.hooks ?? {}, name));
  if (runner === undefined) return undefined;
  const {
    start,
    stop,
    login,
    usd_per_hour,
    stop_after_idle_minutes,
    limit_minutes = LIMIT_MINUTES,
  } = entryOf(settings.hooks!, runner)!;
  return {
    runner,
    hooks: {
      start,
      stop,
      login,
      usdPerHour: usd_per_hour,
      stopAfterIdleMinutes: stop_after_idle_minutes,
      limitMinutes: limit_minutes,
    },
  };
}

/** The appearance and behavior of the terminal program. */
export interface Appearance {
  readonly theme: ThemeChoice;
  /** True to draw below the prompt instead of on a separate screen. */
  readonly inline: boolean;
  readonly mouse: boolean;
  /** True to open the program as the user left it. */
  readonly restoreView: boolean;
  /** Action at the end of a job longer than 10 s. */
  readonly endNotice: EndNotice;
  readonly editor?: string | undefined;
  /** The user's own key bindings, by command id. */
  readonly keys?: Readonly<Record<string, readonly string[]>> | undefined;
}
