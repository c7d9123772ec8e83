/** Begins every token of a runner, so that it can be recognized in a text. */
export const TOKEN_PREFIX = 'fct_';

/** Characters of a token after its prefix: 256 bits in base64url. */
const TOKEN = new RegExp(`${TOKEN_PREFIX}[\\w-]{43}`, 'g');

/** Replaces tokens in a text, for logs and events: a client may have put one into a label, a source or a printf. */
export const withoutTokens = (text: string): string =>
  text.includes(TOKEN_PREFIX) ? text.replace(TOKEN, `${TOKEN_PREFIX}[redacted]`) : text;
