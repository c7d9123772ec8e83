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
