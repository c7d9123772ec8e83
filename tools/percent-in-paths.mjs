/**
 * Loaded into vitest's processes if the checkout's path contains a percent or number sign (vitest.config.ts). vitest
 * imports packages by their paths, and Node reads these as URLs, in which "%" begins an escape and "#" a fragment.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

registerHooks({
  resolve: (specifier, context, nextResolve) =>
    nextResolve(specifier.startsWith('/') ? pathToFileURL(specifier).href : specifier, context),
});
