// Bundles the runner, its worker process and fa-tui into apps/*/dist, each one file, so that starting them reads
// little. Run by `npm ci` (prepare), `npm start` and `npm test`. When no file that the last build read has changed it
// does nothing.
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

const root = new URL('..', import.meta.url).pathname;
const inputsFile = join(root, 'apps/tui/dist/inputs.json');

/** Time and size of a file; null where there is none. */
function stampOf(path) {
  const found = statSync(join(root, path), { throwIfNoEntry: false });
  return found ? `${found.mtimeMs} ${found.size}` : null;
}

function isCurrent() {
  if (!existsSync(inputsFile)) return false;
  try {
    return Object.entries(JSON.parse(readFileSync(inputsFile, 'utf8'))).every(
      ([path, stamp]) => stampOf(path) === stamp,
    );
  } catch {
    return false; // an interrupted build left a piece of the file
  }
}

if (isCurrent()) process.exit();
const startedMs = Date.now();
rmSync(inputsFile, { force: true });
const { build } = await import('esbuild');
// Bundled CommonJS packages call require() for Node's own modules.
const banner =
  "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url); const __bundleFolder = import.meta.dirname;";

// These packages read .proto files beside their own code: the files are copied into dist/protos, and their __dirname
// leads there.
const packagesWithProtos = { 'grpc-health-check': 'proto', '@grpc/reflection': 'build/proto/grpc' };
const bundleProtos = {
  name: 'bundle-protos',
  setup({ onLoad }) {
    for (const [name, protos] of Object.entries(packagesWithProtos)) {
      const folder = `${root}node_modules/${name}`;
      cpSync(`${folder}/${protos}`, `${root}apps/runner/dist/protos/${name}/${protos}`, { recursive: true });
      onLoad({ filter: new RegExp(`node_modules/${name}/build/src/.*\\.js$`) }, ({ path }) => ({
        contents: readFileSync(path, 'utf8').replaceAll(
          '__dirname',
          `(__bundleFolder + ${JSON.stringify(`/protos/${name}/${relative(folder, dirname(path))}`)})`,
        ),
      }));
    }
  },
};

// Ink asks string-width for every cell of every frame and lays every cell out anew: fa-tui brings faster ways for what
// it draws, which leave the rest to the originals.
const terminalModule = (name) => `${root}apps/tui/src/terminal/${name}.ts`;
const inkRendererImport = "import Output from './output.js';";
const fastInk = {
  name: 'fast-ink',
  setup({ onResolve, onLoad }) {
    onResolve({ filter: /^string-width$/ }, ({ importer }) =>
      importer === terminalModule('string-width') ? undefined : { path: terminalModule('string-width') },
    );
    onLoad({ filter: /ink\/build\/renderer\.js$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8');
      if (!source.includes(inkRendererImport))
        throw new Error(`Wanted ${inkRendererImport} in ${path}; this version of Ink is another one`);
      const imports = `import InkOutput from './output.js'; import { withRowFastPath } from ${JSON.stringify(terminalModule('row-output'))}; const Output = withRowFastPath(InkOutput);`;
      return { contents: source.replace(inkRendererImport, imports), resolveDir: dirname(path) };
    });
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
  // koffi finds its native library next to its own files; react-devtools-core is an optional dependency of ink that is
  // not installed.
  external: ['koffi', 'react-devtools-core'],
};

const built = await Promise.all([
  build({
    ...common,
    entryPoints: {
      main: 'apps/runner/src/main.ts',
      worker: 'apps/runner/worker/main.ts',
      'profile-once': 'apps/runner/worker/profile-once.ts',
    },
    outdir: 'apps/runner/dist',
    plugins: [bundleProtos],
  }),
  build({
    ...common,
    entryPoints: {
      conformance: 'test/conformance/main.ts',
      primitives: 'test/conformance/primitives-main.ts',
      'launch-overlap': 'test/measure/launch-overlap.ts',
      'clock-stamps': 'test/measure/clock-stamps.ts',
    },
    outdir: 'test/dist',
  }),
  // Split, so that plain commands load neither ink and react nor, for --help, gRPC.
  build({
    ...common,
    entryPoints: { main: 'apps/tui/src/main.tsx' },
    outdir: 'apps/tui/dist',
    splitting: true,
    plugins: [fastInk],
  }),
]);

// Chunks of former builds go.
const tuiDist = join(root, 'apps/tui/dist');
const current = new Set(Object.keys(built[2].metafile.outputs).map((file) => basename(file)));
for (const file of readdirSync(tuiDist)) if (!current.has(file)) rmSync(join(tuiDist, file), { recursive: true });

// Outputs too: a deleted one is built again. package-lock.json stands for the versions of everything. A source that
// changed meanwhile counts as changed.
const inputs = [
  'tools/build.mjs',
  'package-lock.json',
  'tsconfig.base.json',
  ...built.flatMap(({ metafile }) => Object.keys(metafile.inputs)),
];
const outputs = built.flatMap(({ metafile }) => Object.keys(metafile.outputs));
const stamps = [
  ...inputs.map((path) => [path, statSync(join(root, path)).mtimeMs < startedMs ? stampOf(path) : '']),
  ...outputs.map((path) => [path, stampOf(path)]),
];
writeFileSync(inputsFile, JSON.stringify(Object.fromEntries(stamps)));
