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

/** Names that users of docker, kubectl, gh, cargo and Nsight type by habit, by the command that does it here. */
const HABITS: Readonly<Record<string, readonly string[]>> = {
  watch: ['attach', 'follow', 'log', 'logs', 'tail', 'wait'],
  jobs: ['ls', 'list', 'ps', 'queue', 'squeue', 'stat', 'status', 'top'],
  history: ['experiments', 'past', 'results', 'runs'],
  leaderboard: ['best', 'board', 'ranking', 'scores'],
  report: ['describe', 'details', 'info', 'inspect', 'night', 'result', 'show', 'summary', 'view', 'why'],
  cancel: ['abort', 'delete', 'kill', 'remove', 'rm', 'scancel', 'stop', 'terminate'],
  run: ['exec', 'execute', 'experiment', 'job', 'launch', 'sbatch', 'submit'],
  build: ['make', 'nvcc'],
  verify: ['check', 'correct', 'test', 'validate'],
  bench: ['benchmark', 'latency', 'measure', 'time', 'timeit'],
  profile: ['counters', 'ncu', 'nsight', 'nsys', 'perf', 'prof'],
  tune: ['autotune', 'optimise', 'optimize', 'search', 'sweep'],
  'watch-source': ['dev', 'live', 'watch-folder'],
  new: ['add', 'clone', 'create', 'fork', 'template'],
  compare: ['diff', 'versus', 'vs'],
  accept: ['approve', 'merge', 'promote'],
  undo: ['restore', 'revert', 'rollback'],
  note: ['annotate', 'comment'],
  champions: ['baseline', 'champion'],
  host: ['device', 'devices', 'gpu', 'gpus', 'nvidia-smi', 'version'],
  runners: ['context', 'contexts', 'hosts', 'remotes', 'servers', 'whoami'],
  login: ['auth', 'connect', 'remote', 'ssh', 'use'],
  logout: ['disconnect', 'forget'],
  fleet: ['cluster', 'nodes', 'partitions', 'pilots', 'sinfo'],
  artifact: ['cat', 'cp', 'download', 'fetch', 'get'],
  trace: ['otel', 'spans', 'timeline'],
  config: ['get-config', 'options', 'preferences', 'set', 'settings'],
  completion: ['autocomplete', 'completions'],
  kernels: ['ladder', 'kernel'],
  problem: ['problems', 'task', 'tasks'],
  mcp: ['agent', 'agents', 'claude'],
  doctor: ['diagnose', 'health'],
  help: ['commands', 'man', 'usage'],
};

/** The command that does what other tools call by this name; undefined if no tool's name is known to mean one. */
export const commandByHabit = (name: string): string | undefined =>
  Object.entries(HABITS).find(([, names]) => names.includes(name.toLowerCase()))?.[0];

/** Every name of another tool that is known. */
export const habitNames = (): string[] => Object.values(HABITS).flat();
