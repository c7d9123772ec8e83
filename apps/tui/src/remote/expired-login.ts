/** Recognizes an expired login by the message of the tool that reports it. */

interface Tool {
  readonly found: RegExp;
  readonly what: string;
  readonly renew: string;
}

/** Messages of each tool. Patterns match the tools' full texts, because "expired" alone is ambiguous. */
const TOOLS: readonly Tool[] = [
  {
    found: /Reauthentication (?:required|failed)|problem refreshing your current auth tokens|gcloud auth login/,
    what: "Google Cloud's login",
    renew: 'gcloud auth login',
  },
  {
    found:
      /SSO session (?:associated with this profile )?has expired|Error loading SSO Token|Token has expired and refresh failed|aws sso login/,
    what: "AWS's login",
    renew: 'aws sso login',
  },
  {
    found: /ExpiredToken|RequestExpired|security token included in the request is expired/,
    what: "AWS's login",
    renew: 'aws sso login',
  },
  { found: /AADSTS\d{4,7}|az login/, what: "Azure's login", renew: 'az login' },
  { found: /tsh login|cert(?:ificate)? has expired.{0,80}teleport/i, what: "Teleport's login", renew: 'tsh login' },
  { found: /cloudflared access login/, what: "Cloudflare's login", renew: 'cloudflared access login' },
  { found: /certificate .{0,300}(?:has )?expired/i, what: 'A certificate', renew: '' },
  { found: /(?:login|session|credentials?|token) (?:has |have )?expired/i, what: 'A login', renew: '' },
];

/**
 * The problem and the remedy if the text mentions an expired login; otherwise undefined. `login` is the user's command
 * that renews it.
 */
export function expiredLogin(text: string, login: string | undefined): string | undefined {
  const tool = TOOLS.find(({ found }) => found.test(text));
  if (tool === undefined) return undefined;
  return `${tool.what} expired: ${renewal(login ?? tool.renew)}`;
}

/** The remedy, with the command that renews the login. */
export const renewal = (command: string | undefined): string =>
  command ? `renew it: ${command}` : 'renew it (the settings can name the command: login of its hooks)';
