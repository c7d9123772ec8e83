// Bundles the runner with its worker process, fa-tui, and the programs for a GPU host into apps/*/dist, test/dist
// and lab/dist, so that a start reads few files. Run by `npm ci` (prepare), `npm start`, `npm test` and nx.
//   node tools/build.mjs [runner] [tui] [test] [lab]     all four if none is named
//   node tools/build.mjs bench                     the screens of fa-tui that `npm run bench` measures
//   node tools/build.mjs testing                   programs that tests start often, and without this from sources
// A program is not built again unless a file that its last build read has changed.
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fastInkBuild } from './fast-ink.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

// Bundled CommonJS packages call require() for Node's own modules.
const banner =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url); const __bundleFolder = import.meta.dirname;";

// These packages read .proto files next to their own code. The build copies these files into dist/protos and makes the
// packages' __dirname point there.
const packagesWithProtos = { 'grpc-health-check': 'proto', '@grpc/reflection': 'build/proto/grpc' };
const bundleProtos = (outdir) => ({
  name: 'bundle-protos',
  setup({ onLoad }) {
    for (const [name, protos] of Object.entries(packagesWithProtos)) {
      const folder = `${root}node_modules/${name}`;
      cpSync(`${folder}/${protos}`, `${root}${outdir}/protos/${name}/${protos}`, { recursive: true });
      onLoad({ filter: new RegExp(`node_modules/${name}/build/src/.*\\.js$`) }, ({ path }) => ({
        contents: readFileSync(path, 'utf8').replaceAll(
          '__dirname',
          `(__bundleFolder + ${JSON.stringify(`/protos/${name}/${relative(folder, dirname(path))}`)})`,
        ),
      }));
    }
  },
});

/**
 * Modules of apps/tui/src that are loaded on demand, grouped into pieces. esbuild makes a file for the code that each
 * combination of pieces shares. With every module as a piece, fa-tui would start from 60 files, each of which costs
 * over half a millisecond.
 */
const TUI_PIECES = [
  ['commands/context', 'commands/report-error'],
  ['connection/connect', 'connection/start-host', 'remote/instance'],
  [
    'commands/check-problem',
    'commands/config',
    'commands/decide',
    'commands/evaluate',
    'commands/evolve',
    'commands/export',
    'commands/follow-job',
    'commands/host-actions',
    'commands/import-problem',
    'commands/leaderboard',
    'commands/lists',
    'commands/login',
    'commands/replay',
    'commands/report',
    'commands/start-job',
    'commands/tune',
    'commands/watch-source',
  ],
];
const tuiPieces = {
  name: 'tui-pieces',
  setup({ onResolve, onLoad }) {
    const source = `${root}apps/tui/src`;
    onResolve({ filter: /^\.\.?\/.*\.ts$/ }, ({ path, kind, resolveDir }) => {
      if (kind !== 'dynamic-import') return undefined;
      const wanted = relative(source, join(resolveDir, path)).replace(/\.ts$/, '');
      const piece = TUI_PIECES.findIndex((modules) => modules.includes(wanted));
      return piece < 0 ? undefined : { path: String(piece), namespace: 'tui-piece', sideEffects: false };
    });
    onLoad({ filter: /.*/, namespace: 'tui-piece' }, ({ path }) => ({
      contents: TUI_PIECES[path].map((module) => `export * from './${module}.ts';`).join('\n'),
      resolveDir: source,
    }));
  },
};

const common = {
  absWorkingDir: root,
  bundle: true,
  platform: 'node',
  target: 'node24',
  format: 'esm',
  jsx: 'automatic',
  sourcemap: 'linked',
  banner: { js: banner },
  define: { 'process.env.NODE_ENV': '"production"' },
  logLevel: 'warning',
  metafile: true,
  // koffi stays external because it finds its native library next to its own files, and react-devtools-core because
  // this optional dependency of ink is not installed.
  external: ['koffi', 'react-devtools-core'],
};

/** The entry points that esbuild builds for each name, and the folder of the output. */
const programs = {
  runner: {
    outdir: 'apps/runner/dist',
    entryPoints: {
      main: 'apps/runner/src/main.ts',
      worker: 'apps/runner/worker/main.ts',
      'check-problem': 'apps/runner/worker/check-problem.ts',
      'profile-once': 'apps/runner/worker/profile-once.ts',
    },
    plugins: [bundleProtos('apps/runner/dist')],
  },
  test: {
    outdir: 'test/dist',
    entryPoints: {
      conformance: 'test/conformance/main.ts',
      primitives: 'test/conformance/primitives-main.ts',
      corpus: 'test/corpus/main.ts',
    },
  },
  lab: {
    outdir: 'lab/dist',
    entryPoints: {
      'launch-overlap': 'lab/measure/launch-overlap.ts',
      'clock-stamps': 'lab/measure/clock-stamps.ts',
      'busy-host': 'lab/measure/busy-host.ts',
      'run-on-inputs': 'lab/measure/run-on-inputs.ts',
      'counter-names': 'lab/measure/counter-names.ts',
    },
  },
  // Split into pieces, so that plain commands do not load ink and react, and --help does not load gRPC either.
  tui: {
    outdir: 'apps/tui/dist',
    entryPoints: { main: 'apps/tui/src/main.tsx' },
    splitting: true,
    plugins: [fastInkBuild, tuiPieces],
  },
  // The bundles are as deep in the tree as their sources, so that relative paths lead to the same files.
  testing: {
    outdir: 'apps/runner/dist/testing',
    entryPoints: {
      worker: 'apps/runner/worker/main.ts',
      'check-problem': 'apps/runner/worker/check-problem.ts',
      'profile-once': 'apps/runner/worker/profile-once.ts',
      'fake-runner-main': 'apps/runner/src/testing/fake-runner-main.ts',
    },
    plugins: [bundleProtos('apps/runner/dist/testing')],
  },
  bench: {
    outdir: 'test/dist/bench',
    entryPoints: { frames: 'apps/tui/src/testing/frames.tsx' },
    splitting: true,
    plugins: [fastInkBuild],
  },
};

const names = process.argv.length > 2 ? process.argv.slice(2) : ['runner', 'test', 'lab', 'tui'];
const unknown = names.find((name) => !Object.hasOwn(programs, name));
if (unknown !== undefined) {
  console.error(
    `unknown program ${JSON.stringify(unknown)}: give some of ${Object.keys(programs).join(', ')}, or none`,
  );
  process.exit(2);
}
const stale = names.filter((name) => !isCurrent(programs[name]));
// esbuild is loaded only if there is something to build.
if (stale.length > 0) {
  const { build } = await import('esbuild');
  await Promise.all(stale.map((name) => buildProgram(build, programs[name])));
}

async function buildProgram(build, { outdir, ...options }) {
  const startedMs = Date.now();
  rmSync(stampsFile(outdir), { force: true });
  const { metafile } = await build({ ...common, ...options, outdir });
  const outputs = Object.keys(metafile.outputs);
  removeOthers(outdir, outputs);
  // Removes V8's cached code of an earlier build (apps/tui/src/main.tsx).
  rmSync(join(root, outdir, 'compiled'), { recursive: true, force: true });
  // Includes the outputs, so that a deleted output is built again. package-lock.json stands for the versions of all
  // packages. A source that changes during the build makes the next build run.
  const inputs = [
    'tools/build.mjs',
    'tools/fast-ink.mjs',
    'package-lock.json',
    'tsconfig.base.json',
    ...Object.keys(metafile.inputs).filter((path) => !path.startsWith('tui-piece:')),
  ];
  const stamps = [
    ...inputs.map((path) => [path, statSync(join(root, path)).mtimeMs < startedMs ? stampOf(path) : '']),
    ...outputs.map((path) => [path, stampOf(path)]),
  ];
  writeFileSync(stampsFile(outdir), JSON.stringify(Object.fromEntries(stamps)));
}

/** Removes the chunks of earlier builds. */
function removeOthers(outdir, outputs) {
  const current = new Set(outputs.map((file) => basename(file)));
  for (const entry of readdirSync(join(root, outdir), { withFileTypes: true }))
    if (entry.isFile() && !current.has(entry.name)) rmSync(join(root, outdir, entry.name));
}

function isCurrent({ outdir }) {
  if (!existsSync(stampsFile(outdir))) return false;
  try {
    return Object.entries(JSON.parse(readFileSync(stampsFile(outdir), 'utf8'))).every(
      ([path, stamp]) => stampOf(path) === stamp,
    );
  } catch {
    return false; // the file is incomplete because a build was interrupted
  }
}

/** Time and size of a file; null if there is none. */
function stampOf(path) {
  const found = statSync(join(root, path), { throwIfNoEntry: false });
  return found ? `${found.mtimeMs} ${found.size}` : null;
}

/** The file that records what the last build of a folder read and wrote. */
function stampsFile(outdir) {
  return join(root, outdir, 'inputs.json');
}
