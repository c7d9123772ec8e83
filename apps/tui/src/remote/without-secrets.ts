/** What ssh and hooks have no use for, and could pass on. */
const SECRETS = ['FLASHCORE_TOKEN'];

/** The environment of every process that is the user's or another's program. */
export const withoutSecrets = (environment: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(environment).filter(([name]) => !SECRETS.includes(name)));
