/** What lets a client in at a runner. */
const SECRETS = ['FLASHCORE_TOKEN'];
/** And the files that do, with the authority that vouches for the runner. */
const CREDENTIALS = [...SECRETS, 'FLASHCORE_TLS_CA', 'FLASHCORE_TLS_CERT', 'FLASHCORE_TLS_KEY'];

const without = (names: readonly string[], environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !names.includes(name)));

/** The environment of every program that is the user's or another's: it has no use for them, and could pass them on. */
export const withoutSecrets = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv => without(SECRETS, environment);

/** For a runner that is to be reached with what its login kept, and nothing else. */
export const withoutCredentials = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  without(CREDENTIALS, environment);

/** Credentials that an environment has, as $NAME. */
export const credentialsIn = (environment: NodeJS.ProcessEnv): string[] =>
  CREDENTIALS.filter((name) => environment[name]).map((name) => `$${name}`);
