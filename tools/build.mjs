// Bundles the runner, its worker process and fa-tui into apps/*/dist, each one file, so that starting them reads little.
// Run by `npm ci` (prepare), `npm start` and `npm test`; takes well under a second.
import { build } from 'esbuild';

const root = new URL('..', import.meta.url).pathname;
// Bundled CommonJS packages call require() for Node's own modules.
const banner = "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);";

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
  // koffi finds its native library next to its own files; react-devtools-core is an optional dependency of ink that is not installed.
  external: ['koffi', 'react-devtools-core'],
};

await Promise.all([
  build({ ...common, entryPoints: { main: 'apps/runner/src/main.ts', worker: 'apps/runner/worker/main.ts' }, outdir: 'apps/runner/dist' }),
  build({ ...common, entryPoints: { main: 'apps/tui/src/main.tsx' }, outdir: 'apps/tui/dist' }),
]);
