import nx from '@nx/eslint-plugin';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';
import { noFixedWait } from './tools/lint/fixed-waits.mjs';
import { importRooms } from './tools/lint/import-rooms.mjs';
import { noPlainDictionary } from './tools/lint/plain-dictionaries.mjs';

// The imports that each room may make; an import that is not listed is refused. A file next to the folders is a room
// too if folders import it. The tables have no cycle, so there can be no cycle of folders.
const RUNNER_ROOMS = {
  'async.ts': [],
  'log.ts': [],
  'memory.ts': [],
  '../worker/messages': [],
  store: ['log.ts', 'async.ts'],
  sandbox: ['log.ts', 'async.ts'],
  access: ['sandbox', 'log.ts'],
  // These four rooms do not know each other; phases and device use all of them.
  build: ['sandbox', 'store', 'async.ts', 'log.ts', '../worker/messages'],
  workers: ['sandbox', 'async.ts', '../worker/messages'],
  profile: ['sandbox', 'store', '../worker/messages'],
  sdpa: ['sandbox', 'store', 'async.ts', '../worker/messages'],
  'kernels.ts': ['store'],
  jobs: ['store', 'async.ts', 'log.ts'],
  spec: ['build', 'jobs', 'store', 'kernels.ts', '../worker/messages'],
  findings: ['build', 'workers', '../worker/messages'],
  device: [...['spec', 'build', 'workers', 'profile', 'sdpa', 'jobs', 'store', 'sandbox'], '../worker/messages'],
  phases: [
    ...['spec', 'findings', 'device', 'build', 'workers', 'profile', 'sdpa', 'jobs', 'store', 'kernels.ts'],
    '../worker/messages',
  ],
  'problem-check': ['spec', 'build', 'workers', 'sandbox', 'store', '../worker/messages'],
  tune: ['phases', 'spec', 'build', 'jobs', 'store'],
  experiment: [...['tune', 'phases', 'device', 'spec', 'build', 'jobs', 'sandbox', 'store', 'kernels.ts', 'log.ts']],
  // A planner whose devices belong to other hosts.
  fleet: [
    ...['experiment', 'phases', 'device', 'spec', 'build', 'jobs', 'rpc', 'access', 'sandbox', 'store'],
    ...['kernels.ts', 'async.ts', 'log.ts'],
  ],
  acceptance: ['access', 'store', 'jobs'],
  'host.ts': ['log.ts', 'store'],
  // An RPC starts jobs and does not know what is in them.
  rpc: ['jobs', 'acceptance', 'access', 'store', 'kernels.ts', 'host.ts', 'async.ts', 'log.ts'],
  operation: ['jobs', 'rpc', 'store', 'async.ts', 'log.ts'],
  testing: ['*'],
  // The files that put the rooms together.
  '.': ['*', '../package.json'],
};
const WORKER_ROOMS = {
  messages: [],
  'reporter.ts': ['messages'],
  driver: ['messages'],
  // A model of a GPU's time, fed with the emulator's traces. It needs no device and no files.
  timing: ['messages'],
  verify: ['driver', 'messages', 'reporter.ts'],
  benchmark: ['verify', 'driver', 'messages', 'reporter.ts'],
  '.': ['*'],
};
const TUI_ROOMS = {
  'exit-code.ts': [],
  'named-files.ts': ['exit-code.ts'],
  terminal: [],
  present: ['terminal'],
  state: ['present'],
  watch: ['state', 'exit-code.ts'],
  session: ['state', 'present', 'watch', 'exit-code.ts'],
  settings: ['state', 'present', 'remote', 'exit-code.ts'],
  remote: ['exit-code.ts'],
  connection: ['remote', 'exit-code.ts', 'named-files.ts'],
  record: ['session', 'named-files.ts', 'exit-code.ts'],
  // Searches, like the agents' tools, use the runner but neither the command line nor the screen.
  search: ['connection', 'state', 'session', 'present', 'exit-code.ts', 'named-files.ts'],
  agents: ['search', 'connection', 'session', 'exit-code.ts', '../package.json'],
  handover: ['record', 'search', 'session', 'state', 'present', 'connection', 'exit-code.ts', 'named-files.ts'],
  export: ['connection', 'present', 'search', 'session', 'exit-code.ts', 'named-files.ts'],
  'problem-import': ['exit-code.ts'],
  champions: ['connection', 'search', 'session', 'present', 'exit-code.ts', 'named-files.ts'],
  keymap: ['state'],
  screens: ['keymap', 'state', 'present'],
  keys: ['keymap', 'screens', 'state', 'session', 'present', 'watch', 'terminal'],
  components: ['keys', 'screens', 'state', 'present', 'terminal'],
  // Plain commands start without ink and react.
  commands: [
    ...['agents', 'connection', 'export', 'present', 'record', 'remote', 'search', 'session', 'settings', 'state'],
    ...['champions', 'handover', 'problem-import', 'watch', 'exit-code.ts', 'named-files.ts', '../package.json'],
  ],
  testing: ['*'],
  '.': ['*'],
};
const SHARED_ROOMS = {
  generated: [],
  text: [],
  files: ['generated', 'text'],
  contract: ['generated', 'text'],
  data: ['contract', 'text'],
  problems: ['data', 'contract', 'files', 'text'],
  kernels: ['problems', 'data', 'contract', 'files', 'generated', 'text'],
  statistics: ['kernels', 'contract', 'generated', 'text'],
  trace: ['kernels', 'contract', 'generated', 'text'],
  client: ['kernels', 'contract', 'files', 'generated', 'text'],
  fleet: ['client', 'generated'],
  testing: ['*'],
  '.': ['*'],
};
const TEST_ROOMS = {
  support: [],
  reliability: ['support'],
  conformance: ['support'],
  bench: ['support'],
  corpus: ['support'],
  e2e: ['support', 'reliability'],
  interop: ['support'],
  ladder: ['support'],
  native: ['support'],
  workspace: ['support'],
};
const TOOLS_ROOMS = { lint: [], '.': [], 'bare-root': ['.'], docs: ['.'] };
const LAB_ROOMS = { tables: [], measure: ['tables'], fleet: ['tables'], corpus: ['tables'], gpu_host: [], '.': [] };
// Prettier breaks lines, except comments and code that it cannot break. Everything but strings, patterns and imports
// keeps to 120 columns.
const LINES = {
  'max-len': [
    'error',
    {
      code: 120,
      ignoreUrls: true,
      ignoreStrings: true,
      ignoreTemplateLiterals: true,
      ignoreRegExpLiterals: true,
      ignorePattern: '^(import|export) .* from ',
    },
  ],
  'no-nested-ternary': 'error',
};
const NAMED_PARAMETER_TYPES = {
  selector:
    ':matches(Identifier, ObjectPattern, ArrayPattern, AssignmentPattern, RestElement, TSParameterProperty).params ' +
    'TSTypeLiteral[members.length>2]',
  message: 'Give a parameter type of three or more members a name: an interface above the function.',
};
// A digest becomes part of a path, so only contract/digest.ts, which checks digests, may declare a text to be one.
const CLAIMED_DIGESTS = {
  selector: ":matches(TSAsExpression, TSTypeAssertion) > TSTypeReference[typeName.name='Sha256']",
  message: 'Read the text with parseSha256() or isSha256().',
};
// In a URL "my code" is my%20code: fileURLToPath() makes a path from a URL, and pathToFileURL() a URL from a path.
const PATHS_OF_URLS = [
  ':matches(MemberExpression[property.name="pathname"], Property[key.name="pathname"])',
  'MemberExpression[object.type="MemberExpression"][object.object.type="MetaProperty"][object.property.name="url"]',
  String.raw`:matches(Literal[value=/^file:\/\//], TemplateElement[value.raw=/^file:\/\//])`,
].map((selector) => ({
  selector,
  message: 'Make a path of a file URL with fileURLToPath(), and a URL of a path with pathToFileURL().',
}));
// vitest compares the own keys of an expected object. A regular expression has no own keys, so it would match any text.
const EMPTY_PATTERNS = {
  selector:
    'CallExpression[callee.property.name="toMatchObject"] :matches(Property > Literal.value[regex], ArrayExpression > Literal[regex])',
  message: 'toMatchObject() takes every value for one that fits this: write expect.stringMatching(…).',
};
// CI refuses a skip that does not name a program to install.
const UNEXPLAINED_SKIPS = {
  selector: 'CallExpression[callee.property.name="skipIf"] Identifier[name="ALL_TESTS"]',
  message: 'List the cases of the complete run with .each(inFull(…)): a skipped test must be short of a program.',
};
// A program started elsewhere has no time limit, no bounded output and nothing that ends it with the runner.
const CHILD_PROCESSES = {
  '@typescript-eslint/no-restricted-imports': [
    'error',
    {
      paths: ['child_process', 'node:child_process'].map((name) => ({
        name,
        allowTypeImports: true,
        message:
          'Start programs through apps/runner/src/sandbox, or add the file to STARTS_PROGRAMS and say there why.',
      })),
    },
  ],
};
// Only the sandbox may start programs, and the following files, which explain why they bypass the sandbox.
const STARTS_PROGRAMS = [
  'apps/runner/src/sandbox/**',
  // The executor's pipes are descriptors that it inherits.
  'apps/runner/worker/driver/remote-library.ts',
  // A reference, whose inputs and outputs only the judge may see.
  'apps/runner/worker/verify/own-reference.ts',
  // The embedded runner, which outlives fa-tui.
  'apps/tui/src/connection/runner-launch.ts',
  // The user's own programs: a proposer, Python, an editor, tmux.
  'apps/tui/src/search/proposer.ts',
  'apps/tui/src/search/compile-triton.ts',
  'apps/tui/src/terminal/editor.ts',
  'apps/tui/src/terminal/clipboard.ts',
  // The user's own ssh, and hooks from the user's settings.
  'apps/tui/src/remote/**',
  // git, asked for a commit.
  'libs/shared/src/files/git-state.ts',
  '**/*.test.ts',
  '**/*.test.tsx',
  '**/testing/**',
];
const FLASHCORE = {
  flashcore: {
    rules: {
      'import-rooms': importRooms,
      'no-fixed-wait': noFixedWait,
      'no-plain-dictionary': noPlainDictionary,
    },
  },
};
const rooms = (root, table) => ({
  files: [`${root}/**/*.ts`, `${root}/**/*.tsx`],
  plugins: FLASHCORE,
  rules: { 'flashcore/import-rooms': ['error', { root, rooms: table }] },
});

export default tseslint.config(
  { ignores: ['**/dist/**', '**/node_modules/**', '**/.nx/**', '**/generated/**/*.js'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  // Code generated by buf turns all rules off by itself.
  { files: ['**/generated/**'], linterOptions: { reportUnusedDisableDirectives: 'off' } },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: {
      parserOptions: {
        // vitest.config.ts belongs to no project.
        projectService: { allowDefaultProject: ['vitest.config.ts'] },
        tsconfigRootDir: import.meta.dirname,
      },
    },
    plugins: { '@nx': nx, 'react-hooks': reactHooks },
    rules: {
      ...LINES,
      'no-restricted-syntax': [
        'error',
        NAMED_PARAMETER_TYPES,
        CLAIMED_DIGESTS,
        EMPTY_PATTERNS,
        UNEXPLAINED_SKIPS,
        ...PATHS_OF_URLS,
      ],
      '@nx/enforce-module-boundaries': [
        'error',
        {
          allow: [],
          depConstraints: [
            { sourceTag: 'scope:shared', onlyDependOnLibsWithTags: ['scope:shared'] },
            { sourceTag: 'scope:runner', onlyDependOnLibsWithTags: ['scope:shared'] },
            { sourceTag: 'scope:tui', onlyDependOnLibsWithTags: ['scope:shared'] },
            {
              sourceTag: 'scope:test',
              onlyDependOnLibsWithTags: ['scope:shared', 'scope:runner', 'scope:tui', 'scope:tools'],
            },
            { sourceTag: 'scope:tools', onlyDependOnLibsWithTags: ['scope:shared'] },
            // The laboratory measures everything, and no other project may import it.
            {
              sourceTag: 'scope:lab',
              onlyDependOnLibsWithTags: ['scope:shared', 'scope:runner', 'scope:tui', 'scope:tools', 'scope:test'],
            },
          ],
        },
      ],
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      'no-empty': ['error', { allowEmptyCatch: false }],
    },
  },
  { files: ['**/*.mjs'], rules: { ...LINES, 'no-restricted-syntax': ['error', ...PATHS_OF_URLS] } },
  {
    files: ['apps/**/*.ts', 'apps/**/*.tsx', 'libs/shared/src/**/*.ts'],
    ignores: STARTS_PROGRAMS,
    rules: CHILD_PROCESSES,
  },
  {
    files: ['**/*.test.ts', '**/*.test.tsx', '**/testing/**', 'test/**/*.ts', 'lab/**/*.ts'],
    // Measuring code has to wait.
    ignores: ['test/bench/**', 'lab/measure/**', 'lab/fleet/**'],
    plugins: FLASHCORE,
    rules: { 'flashcore/no-fixed-wait': 'error' },
  },
  {
    // Keys come from proposers, agents, clients, pilots, and other people's files and runners.
    files: ['apps/**/*.ts', 'apps/**/*.tsx', 'libs/shared/src/**/*.ts'],
    ignores: ['**/*.test.ts', '**/*.test.tsx', '**/testing/**', '**/generated/**'],
    plugins: FLASHCORE,
    rules: { 'flashcore/no-plain-dictionary': 'error' },
  },
  {
    // A function with more than four parameters takes an options object.
    files: ['apps/**/*.ts', 'apps/**/*.tsx', 'libs/shared/src/**/*.ts'],
    ignores: ['**/*.test.ts', '**/*.test.tsx', '**/testing/**', '**/generated/**'],
    rules: { 'max-params': ['error', { max: 4 }] },
  },
  rooms('apps/runner/src', RUNNER_ROOMS),
  rooms('apps/runner/worker', WORKER_ROOMS),
  rooms('apps/tui/src', TUI_ROOMS),
  rooms('libs/shared/src', SHARED_ROOMS),
  rooms('test', TEST_ROOMS),
  rooms('tools', TOOLS_ROOMS),
  rooms('lab', LAB_ROOMS),
);
