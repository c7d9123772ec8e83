import { existsSync } from 'node:fs';
import { tableOf, type Column } from '../present/blocks.ts';
import { sanitize } from '../present/cells/cell-text.ts';
import { piece } from '../present/roles.ts';
import { settingsFile, readSettings, settingsSchema } from '../settings/settings.ts';
import type { CommandContext } from './context.ts';
import { effectiveSettings, type EffectiveSetting } from './effective-settings.ts';
import { ExitCode } from '../exit-code.ts';

type ConfigAction = 'show' | 'path' | 'validate' | 'schema';

const COLUMNS: readonly Column<EffectiveSetting>[] = [
  { title: 'setting', cell: ({ name }) => name },
  { title: 'value', shrinkTo: 16, cell: ({ value }) => sanitize(String(value)) },
  { title: 'from', shrinkTo: 12, cell: ({ from }) => piece(from, from === 'default' ? 'dim' : undefined) },
];

/**
 * `fa-tui config show|path|validate|schema`: shows the user's settings, prints their path, checks them, or prints their
 * schema.
 */
export function config(action: string, context: CommandContext): Promise<ExitCode> {
  const { environment } = context.surroundings;
  const file = settingsFile(environment);
  switch (action as ConfigAction) {
    case 'path':
      context.report([file]);
      break;
    case 'schema':
      context.document(settingsSchema());
      break;
    case 'show': {
      const settings = effectiveSettings(context.options, environment);
      if (context.options.json) context.document({ settings });
      else context.show([tableOf(COLUMNS, settings)]);
      break;
    }
    case 'validate': {
      readSettings(environment);
      context.report([
        existsSync(file) ? `${file}: as it should be` : `${file}: there is none; all settings are at their defaults`,
      ]);
      break;
    }
  }
  return Promise.resolve(ExitCode.PASSED);
}
