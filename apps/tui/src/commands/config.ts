import { existsSync } from 'node:fs';
import { readSettings, settingsFile, settingsSchema } from '../settings/settings.ts';
import type { CommandContext } from './context.ts';
import { ExitCode } from './exit-code.ts';
import { UsageError } from '../usage-error.ts';

const ACTIONS = ['show', 'path', 'validate', 'schema'];

/** `fa-tui config show|path|validate|schema`: the user's settings. */
export function config(action: string, context: CommandContext): Promise<ExitCode> {
  const { environment } = context.surroundings;
  const file = settingsFile(environment);
  switch (action) {
    case 'path':
      context.report([file]);
      break;
    case 'schema':
      context.document(settingsSchema());
      break;
    case 'show':
      context.document(readSettings(environment));
      break;
    case 'validate': {
      readSettings(environment);
      context.report([
        existsSync(file) ? `${file}: as it should be` : `${file}: there is none; all settings are at their defaults`,
      ]);
      break;
    }
    default:
      throw new UsageError(`Wanted one of ${ACTIONS.join(', ')} after fa-tui config; got ${action}`);
  }
  return Promise.resolve(ExitCode.PASSED);
}
