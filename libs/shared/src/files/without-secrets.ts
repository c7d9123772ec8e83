/** What lets a client in at a runner. */
const SECRETS = ['FLASHCORE_TOKEN'];

/** The environment of every program that is the user's or another's: it has no use for them, and could pass them on. */
export const withoutSecrets = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !SECRETS.includes(name)));
