/** Commands for a shell, under the headings of `fa-tui --help`. */
export const COMMAND_GROUPS: readonly (readonly [heading: string, names: readonly string[]])[] = [
  [
    'Run a kernel:',
    ['run', 'build', 'verify', 'bench', 'profile', 'tune', 'evaluate', 'evolve', 'watch-source', 'start', 'cancel'],
  ],
  ['Kernels and problems:', ['new', 'kernels', 'init', 'compile', 'export', 'problem']],
  [
    'Jobs and results:',
    ['jobs', 'watch', 'compare', 'history', 'leaderboard', 'report', 'trace', 'artifact', 'replay'],
  ],
  ['Champions:', ['accept', 'reject', 'undo', 'note', 'champions']],
  ['Runners:', ['host', 'doctor', 'fleet', 'login', 'logout', 'runners']],
  ['This program:', ['config', 'completion', 'mcp', 'uninstall', 'help']],
];

/** The commands whose names begin with a text. */
export const shellCommandsLike = (text: string): string[] =>
  text.length < 2
    ? []
    : COMMAND_GROUPS.flatMap(([, names]) => names.filter((name) => name.startsWith(text.toLowerCase())));
