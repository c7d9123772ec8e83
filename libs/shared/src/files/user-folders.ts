/**
 * Where a user's configuration and state lie: as XDG says, in $FLASHCORE_HOME where there is one, else in the home
 * folder.
 */
import { existsSync } from 'node:fs';
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

const OWN =
  /^(?:flashcore\.db.*|lock\.(?:db.*|pid)|judging\.key|runner\.log|(?:runner|tokens|revoked-certificates)\.json(?:\.new)?|artifacts|builds|bundles|libraries|sources|tmp|tls)$/;

/** Whether a name directly in a runner's data folder is flashcore's own; everything else there is the user's. */
export const isOwnData = (name: string): boolean => OWN.test(name);

/** Whether flashcore ever used a folder as a data folder: `builds` or `tmp` in any other is the user's. */
export const isDataFolder = (directory: string): boolean =>
  ['lock.db', 'flashcore.db', 'bundles'].some((name) => existsSync(join(directory, name)));
