/**
 * Where a user's configuration and state lie: as XDG says, in $FLASHCORE_HOME where there is one, else in the home
 * folder.
 */
import { homedir } from 'node:os';
import { join } from 'node:path';

interface FolderNames {
  variable: string;
  own: string;
  usual: string;
}

const folder = (environment: NodeJS.ProcessEnv, { variable, own, usual }: FolderNames): string => {
  const home = environment['FLASHCORE_HOME'];
  return join(
    environment[variable] || (home ? join(home, own) : join(environment['HOME'] || homedir(), usual)),
    'flashcore',
  );
};

/** Logins and settings: $XDG_CONFIG_HOME, else $FLASHCORE_HOME/config, else ~/.config; in it flashcore/. */
export const configFolder = (environment: NodeJS.ProcessEnv): string =>
  folder(environment, { variable: 'XDG_CONFIG_HOME', own: 'config', usual: '.config' });

/** How programs were left: $XDG_STATE_HOME, else $FLASHCORE_HOME/state, else ~/.local/state; in it flashcore/. */
export const stateFolder = (environment: NodeJS.ProcessEnv): string =>
  folder(environment, { variable: 'XDG_STATE_HOME', own: 'state', usual: '.local/state' });
