import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { parseYamlFile } from '../data/yaml-file.ts';
import { didYouMean } from '../text/nearest-names.ts';
import type { Manifest } from './manifest-model.ts';
import { manifestSchema } from './manifest-schema.ts';
import { readManifestText } from './manifest.ts';
import { mayBeSource } from './source-tree.ts';

/**
 * Checks that a kernel's folder has the source that its manifest names. Errors: INVALID_MANIFEST with the manifest's
 * line.
 */
export function requireSource(folder: string, { path, source }: Pick<Manifest, 'path' | 'source'>): void {
  if (existsSync(join(folder, source))) return;
  const file = parseYamlFile(readManifestText(folder, path), path, manifestSchema);
  const sources = readdirSync(folder)
    .filter((name) => mayBeSource(name) && !/\.(md|yaml)$/.test(name))
    .toSorted();
  const remedy =
    didYouMean(source, sources) || (sources.length === 0 ? ': it has no source' : `: it has ${sources.join(', ')}`);
  throw file.refuse([{ key: ['source'], message: `wanted a file of the kernel's folder, found "${source}"${remedy}` }]);
}
