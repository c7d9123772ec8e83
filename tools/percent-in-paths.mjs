/**
 * Loaded into vitest's processes if the checkout's path contains a percent or number sign (vitest.config.ts). vitest
 * imports packages by their paths, which Node reads as URLs: "100%" would begin an escape, "#1" a fragment.
 */
import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

registerHooks({
  resolve: (specifier, context, nextResolve) =>
    nextResolve(specifier.startsWith('/') ? pathToFileURL(specifier).href : specifier, context),
});
