import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  SHA256_FORM,
  SourceFileSchema,
  isSha256,
  sha256Of,
  type FieldViolation,
  type SourceFile,
} from '@flashcore/shared/contract';
import { MAX_TREE_BYTES, MAX_TREE_FILES, isSourcePath } from '@flashcore/shared/kernels';

type SourceFileInit = Pick<SourceFile, 'path' | 'sha256' | 'sizeBytes'>;

interface TreeChoice {
  /** All files, or only those that a client would upload. */
  which: 'all' | 'sources';
  /** Additional files that the source was compiled from. */
  also?: readonly string[];
}

/** The files of a folder with their digests, by path. */
export function readTree(folder: string, { which, also = [] }: TreeChoice): SourceFile[] {
  const files: MessageInitShape<typeof SourceFileSchema>[] = also.map((path) => describeFile(folder, path));
  const visit = (prefix: string): void => {
    for (const entry of readdirSync(join(folder, prefix), { withFileTypes: true })) {
      const path = prefix ? `${prefix}/${entry.name}` : entry.name;
      if (which === 'sources' && entry.isFile() && !isSourcePath(path)) continue;
      if (entry.isDirectory()) visit(path);
      else if (entry.isFile()) files.push(describeFile(folder, path));
    }
  };
  visit('');
  return files.map((file) => create(SourceFileSchema, file)).sort((a, b) => (a.path < b.path ? -1 : 1));
}

function describeFile(folder: string, path: string): SourceFileInit {
  const bytes = readFileSync(join(folder, path));
  return { path, sha256: sha256Of(bytes), sizeBytes: BigInt(bytes.byteLength) };
}

/** Violations in the files of a client's tree; `field` is the request's field that holds them. */
export function sourceTreeViolations(files: readonly SourceFile[], field: string): FieldViolation[] {
  if (files.length === 0) return [{ field, description: 'must name at least the file kernel.yaml' }];
  if (files.length > MAX_TREE_FILES)
    return [{ field, description: `must name at most ${MAX_TREE_FILES} files, names ${files.length}` }];
  const violations = files.flatMap((file, index) => sourceFileViolations(file, `${field}[${index}]`));
  if (violations.length > 0) return violations;
  return [...treeViolations(files, field), ...clashes(files, field)];
}

/** Violations in one file of a client. */
export function sourceFileViolations(file: SourceFile, field: string): FieldViolation[] {
  const violations: FieldViolation[] = [];
  const path = pathViolation(file.path);
  if (path) violations.push({ field: `${field}.path`, description: path });
  if (!isSha256(file.sha256)) violations.push({ field: `${field}.sha256`, description: SHA256_FORM });
  if (file.sizeBytes < 0n || file.sizeBytes > BigInt(MAX_TREE_BYTES))
    violations.push({ field: `${field}.size_bytes`, description: `must be from 0 to ${MAX_TREE_BYTES}` });
  return violations;
}

function pathViolation(path: string): string | undefined {
  // File systems count bytes, and 200 characters can take 400.
  if (path.length === 0 || Buffer.byteLength(path) > 255) return 'must have 1 to 255 bytes of UTF-8';
  if (/[\u0000-\u001f\u007f\\]/.test(path)) return 'must have no control character and no backslash';
  if (path.startsWith('/')) return 'must be relative to the folder';
  if (path.split('/').some((name) => name === '' || name === '.' || name === '..'))
    return 'must have no empty name, "." or ".." between slashes';
  return undefined;
}

function treeViolations(files: readonly SourceFile[], field: string): FieldViolation[] {
  const bytes = files.reduce((sum, file) => sum + file.sizeBytes, 0n);
  const violations: FieldViolation[] = [];
  if (bytes > BigInt(MAX_TREE_BYTES))
    violations.push({ field, description: `must have at most ${MAX_TREE_BYTES} bytes in all, has ${bytes}` });
  if (!files.some(({ path }) => path === 'kernel.yaml'))
    violations.push({ field, description: 'must name the file kernel.yaml' });
  return violations;
}

/**
 * Paths that can't be in one folder together: duplicates, even if only their case differs, or a file that is also a
 * folder.
 */
function clashes(files: readonly SourceFile[], field: string): FieldViolation[] {
  const seen = new Set(files.map(({ path }) => path.toLowerCase()));
  if (seen.size < files.length) return [{ field, description: 'must name each path once' }];
  const folders = files.flatMap(({ path }) => parents(path.toLowerCase()));
  const both = folders.find((folder) => seen.has(folder));
  return both === undefined ? [] : [{ field, description: `must not have ${both} as a file and as a folder` }];
}

const parents = (path: string): string[] =>
  path
    .split('/')
    .slice(0, -1)
    .map((_, index, names) => names.slice(0, index + 1).join('/'));
