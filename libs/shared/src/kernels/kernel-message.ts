import { create } from '@bufbuild/protobuf';
import { KernelSchema, type Kernel, type SourceFile } from '../generated/flashcore/runner/v1/kernel_pb.js';
import type { Manifest } from './manifest-model.ts';

interface KernelFiles {
  readonly sourceDigest: string;
  readonly files: SourceFile[];
  readonly notes: string;
}

/** A manifest in the form in which runners and clients list it, with the known facts about the folder's files. */
export const kernelMessage = (
  manifest: Manifest,
  { sourceDigest, files, notes }: KernelFiles = { sourceDigest: '', files: [], notes: '' },
): Kernel =>
  create(KernelSchema, {
    kernelId: manifest.id,
    problem: manifest.problem.id,
    title: manifest.title,
    lesson: manifest.lesson,
    ...(manifest.after !== undefined && { after: manifest.after }),
    parameters: Object.entries(manifest.parameters).map(([name, parameter]) => ({
      name,
      values: parameter.values.map(BigInt),
      defaultValue: BigInt(parameter.default),
      about: parameter.about,
    })),
    configs: Object.keys(manifest.configs),
    limits: manifest.limits.map(({ require, because }) => ({ require: require.text, because })),
    minArch: manifest.minArch,
    emulated: manifest.emulated !== false,
    needsPtxEngine: manifest.emulated === 'ptx',
    deprecated: manifest.deprecated ?? '',
    expectations: manifest.expectations.map(({ note, ...each }) => ({ ...each, note: note ?? '' })),
    ...(manifest.faulty && { expectedFinding: manifest.faulty.finding }),
    sourceDigest,
    files,
    notes,
  });
