/** Locations of a user's configuration and state: XDG's variables, else $FLASHCORE_HOME, else the home folder. */
import { existsSync, mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join, dirname } from 'node:path';
import { entryOf } from '../text/entry-of.ts';

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

/** The environment for programs of the user or a third party, which do not need the secrets and could leak them. */
export const withoutSecrets = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv => without(SECRETS, environment);

/** The environment for reaching a runner only with the credentials that its login stored. */
export const withoutCredentials = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  without(CREDENTIALS, environment);

/** The names of the credentials in an environment, as $NAME. */
export const credentialsIn = (environment: NodeJS.ProcessEnv): string[] =>
  CREDENTIALS.filter((name) => environment[name]).map((name) => `$${name}`);

/**
 * Creates a folder and its parents, by default for this user only. It creates them one by one, because mkdirSync's
 * `recursive` never returns if the system reports ENOENT although the parent exists, as under /proc. Errors: the
 * system's.
 */
export function makeFolder(path: string, mode = 0o700): void {
  if (existsSync(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeFolder(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    // Another process created it first.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

const WHY: Readonly<Record<string, string>> = {
  EROFS: 'its file system is read-only',
  EACCES: 'this user may not write there',
  EPERM: 'this user may not write there',
  ENOTDIR: 'a part of the path is not a folder',
  // Under /proc, or if a parent folder is missing.
  ENOENT: 'no folder can be made there',
};

/** Why a folder could not be created or written to, for the caller's text; undefined for any other error. */
export const whyUnwritable = (error: unknown): string | undefined =>
  entryOf(WHY, (error as NodeJS.ErrnoException | undefined)?.code ?? '');
