/** Names from the files of this clone. The embedded runner lists the same names once it is started. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import {
  MANIFEST_FILE,
  loadManifest,
  parseCases,
  parseGates,
  type Cases,
  type GatesFile,
} from '@flashcore/shared/kernels';
import { runnerKernels } from '../connection/data-directory.ts';
import type { Candidate, NameKind } from './complete-line.ts';

type Lookup = (kernels: string, kernel: string) => Promise<Candidate[]> | Candidate[];

const NAMES: Partial<Record<NameKind, Lookup>> = {
  kernel: (kernels) =>
    Promise.all(
      readdirSync(kernels)
        .map((name) => path.join(kernels, name))
        .filter(hasManifest)
        .map(async (folder) => ({ word: path.basename(folder), about: (await loadManifest(folder)).title })),
    ),
  parameter: async (kernels, kernel) => {
    const folder = path.join(kernels, path.basename(kernel));
    if (kernel === '' || !hasManifest(folder)) return [];
    const { parameters } = await loadManifest(folder);
    return Object.entries(parameters).map(([name, { about = '' }]) => ({ word: `${name}=`, about }));
  },
  plan: (kernels) => [...gatesIn(kernels).plans].map(([word, { title }]) => ({ word, about: title })),
  'case set': (kernels) =>
    Object.entries(casesIn(kernels).sets).map(([word, { length }]) => ({ word, about: `${length} shapes` })),
  tolerance: (kernels) => Object.keys(casesIn(kernels).tolerances).map((word) => ({ word, about: '' })),
};

/** The names of a kind. Empty for jobs and devices, which only a runner knows. */
export const installedNames = async (kind: NameKind, kernel: string): Promise<Candidate[]> =>
  (await NAMES[kind]?.(runnerKernels(), kernel)) ?? [];

const hasManifest = (folder: string): boolean => existsSync(path.join(folder, MANIFEST_FILE));

const casesIn = (kernels: string): Cases => parseCases(...textAndPath(path.join(kernels, 'cases.yaml')));

const gatesIn = (kernels: string): GatesFile => parseGates(...textAndPath(path.join(kernels, 'gates.yaml')));

const textAndPath = (file: string): [string, string] => [readFileSync(file, 'utf8'), file];
