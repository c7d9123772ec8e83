/** Locations of a user's configuration and state: XDG's variables, else $FLASHCORE_HOME, else the home folder. */
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

/**
 * Folder for logins and settings: flashcore/ in $XDG_CONFIG_HOME, else in $FLASHCORE_HOME/config, else in ~/.config.
 */
export const configFolder = (environment: NodeJS.ProcessEnv): string =>
  folder(environment, { variable: 'XDG_CONFIG_HOME', own: 'config', usual: '.config' });

/**
 * Folder for saved program state: flashcore/ in $XDG_STATE_HOME, else in $FLASHCORE_HOME/state, else in ~/.local/state.
 */
export const stateFolder = (environment: NodeJS.ProcessEnv): string =>
  folder(environment, { variable: 'XDG_STATE_HOME', own: 'state', usual: '.local/state' });

const OWN =
  /^(?:flashcore\.db.*|lock\.(?:db.*|pid)|judging\.key|runner\.log|(?:runner|tokens|revoked-certificates)\.json(?:\.new)?|artifacts|builds|bundles|executors|fleet|libraries|references|room|sources|tmp|tls)$/;

/**
 * Whether a name directly in a runner's data folder belongs to flashcore; everything else there belongs to the user.
 */
export const isOwnData = (name: string): boolean => OWN.test(name);

/** Whether flashcore has used a folder as a data folder. `builds` or `tmp` in any other folder belongs to the user. */
export const isDataFolder = (directory: string): boolean =>
  ['lock.db', 'flashcore.db', 'bundles'].some((name) => existsSync(join(directory, name)));

/** Variables with secrets that give access to a runner. */
const SECRETS = ['FLASHCORE_TOKEN'];
/** Also variables that name credential files, and the authority that vouches for the runner. */
const CREDENTIALS = [...SECRETS, 'FLASHCORE_TLS_CA', 'FLASHCORE_TLS_CERT', 'FLASHCORE_TLS_KEY'];

const without = (names: readonly string[], environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !names.includes(name)));

/** The environment for every program of the user or a third party. It does not need the secrets and could leak them. */
export const withoutSecrets = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv => without(SECRETS, environment);

/** The environment for reaching a runner only with the credentials that its login stored. */
export const withoutCredentials = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  without(CREDENTIALS, environment);

/** The names of the credentials in an environment, as $NAME. */
export const credentialsIn = (environment: NodeJS.ProcessEnv): string[] =>
  CREDENTIALS.filter((name) => environment[name]).map((name) => `$${name}`);
