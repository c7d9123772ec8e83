/** Configuration for `fa-tui mcp` in a coding agent: the snippet for its settings file, and the path of that file. */
export const HOSTS = ['claude', 'codex', 'cursor'] as const;
export type AgentHost = (typeof HOSTS)[number];

const json = (servers: object): string => JSON.stringify({ mcpServers: servers }, null, 2);

/** By default Codex ends a call after 60 s, and a server that does not start within 10 s. */
const CODEX_SECONDS = 120;

interface Snippet {
  readonly file: string;
  readonly text: string;
}

/** `args` are fa-tui's arguments, such as --runner gpu01, followed by mcp. */
export function hostConfig(host: AgentHost, args: readonly string[]): Snippet {
  switch (host) {
    case 'claude':
      return {
        file: '.mcp.json in the project; or: claude mcp add flashcore -- fa-tui mcp',
        text: json({ flashcore: { type: 'stdio', command: 'fa-tui', args } }),
      };
    case 'cursor':
      return { file: '.cursor/mcp.json in the project', text: json({ flashcore: { command: 'fa-tui', args } }) };
    case 'codex':
      return {
        file: '~/.codex/config.toml; or: codex mcp add flashcore -- fa-tui mcp',
        text: [
          '[mcp_servers.flashcore]',
          'command = "fa-tui"',
          `args = ${JSON.stringify(args)}`,
          `tool_timeout_sec = ${CODEX_SECONDS}`,
        ].join('\n'),
      };
  }
}
