import nx from '@nx/eslint-plugin';
import importX from 'eslint-plugin-import-x';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

/** Refuses imports into `into` from files of `from`, with the rule's reason. */
const forbid = (from, into, why) => into.map((folder) => ({ target: from, from: folder, message: why }));

// The layers of apps/runner/src: rpc → jobs → store; experiment → phases → device | findings | spec → build | workers |
// profile | sdpa → store | sandbox (ARCHITECTURE.md).
const src = (name) => `./apps/runner/src/${name}`;
const steps = ['build', 'workers', 'profile', 'sdpa'];
const work = ['experiment', 'tune', 'phases', 'device', 'findings', 'spec'];
// The rooms of apps/tui/src, each standing on those before it; present/cells/ and its neighbours are rooms of their own.
const tuiRooms = ['state', 'present', 'watch', 'session', 'keymap', 'screens', 'keys', 'components'];
const tui = (name) => `./apps/tui/src/${name}`;
const tuiZones = [
  ...tuiRooms.flatMap((name, index) =>
    forbid(
      tui(name),
      tuiRooms.slice(index + 1).map(tui),
      `${name}/ stands below ${tuiRooms.slice(index + 1).join(', ')}`,
    ),
  ),
  ...forbid(tui('commands'), ['screens', 'keys', 'components'].map(tui), 'plain commands start without ink and react'),
  ...forbid(tui('connection'), ['commands', 'state', 'screens'].map(tui), 'which runner: known before any command'),
];
const zones = [
  ...['store', 'sandbox'].flatMap((name) =>
    forbid(src(name), ['rpc', 'jobs', ...work, ...steps].map(src), `the ${name} knows nobody`),
  ),
  ...steps.flatMap((name) =>
    forbid(
      src(name),
      ['rpc', 'jobs', ...work, ...steps.filter((other) => other !== name)].map(src),
      `${steps.join(', ')} do not know each other, nor what is above them`,
    ),
  ),
  ...work.flatMap((name, level) =>
    forbid(
      src(name),
      ['rpc', ...work.slice(0, level)].map(src),
      `${work.join(' → ')}: none knows what is above it, nor who asked`,
    ),
  ),
  ...forbid(src('jobs'), ['rpc', ...work, ...steps].map(src), 'jobs run bodies and do not know what is in them'),
  ...forbid(src('rpc'), [...work, ...steps].map(src), 'an RPC starts jobs and does not know what is in them'),
  {
    target: './apps/runner/src',
    from: './apps/runner/worker',
    except: ['./messages.ts'],
    message: 'src and worker share worker/messages.ts only: they are two processes',
  },
  {
    target: './apps/runner/worker',
    from: './apps/runner/src',
    message: 'the worker process knows nothing of the daemon',
  },
  {
    target: './apps/tui/src/search',
    from: './apps/tui/src',
    except: ['./search', './connection', './report', './state', './session', './present', './usage-error.ts'],
    message: 'a search knows the runner, and neither command line nor screen',
  },
  {
    target: './apps/tui/src/agents',
    from: './apps/tui/src',
    except: ['./agents', './search', './connection', './session'],
    message: 'tools for agents know the runner and what judges a kernel, and neither command line nor screen',
  },
  ...tuiZones,
];

export default tseslint.config(
  { ignores: ['**/dist/**', '**/node_modules/**', '**/.nx/**', '**/generated/**'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { '@nx': nx, 'import-x': importX, 'react-hooks': reactHooks },
    settings: {
      'import-x/resolver-next': [importX.createNodeResolver({ extensions: ['.ts', '.tsx', '.js'] })],
      'import-x/parsers': { '@typescript-eslint/parser': ['.ts', '.tsx'] },
    },
    rules: {
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
          ],
        },
      ],
      'import-x/no-cycle': 'error',
      'import-x/no-restricted-paths': ['error', { basePath: import.meta.dirname, zones }],
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      'no-empty': ['error', { allowEmptyCatch: false }],
    },
  },
);
