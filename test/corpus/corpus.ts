/** The kernels of kernels/corpus/corpus.yaml: cheats by family, and honest kernels that must pass. */
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { parse } from 'yaml';
import { repositoryRoot } from '../support/repository-root.ts';

const CORPUS_FILE = 'kernels/corpus/corpus.yaml';

/** A kernel of the repository, with values for some of its parameters. */
export interface CorpusKernel {
  /** An id, or a folder: absolute, or relative to the repository's root. */
  kernel: string;
  parameters: Readonly<Record<string, number>>;
}

export interface Cheat extends CorpusKernel {
  name: string;
  family: string;
  does: string;
  gains: string;
  /** The rule that should stop the cheat, as a key of `rules`. */
  rule: string;
  /** Why the cheat is not caught, for each place where it passes. In all other places it must be caught. */
  passes: Readonly<Partial<Record<Place, string>>>;
}

export type Place = 'emulator' | 'gpu';

export interface Honest extends CorpusKernel {
  why: string;
}

export interface Corpus {
  /** Titles of the families, by id. */
  families: Readonly<Record<string, string>>;
  rules: Readonly<Record<string, string>>;
  cheats: readonly Cheat[];
  honest: readonly Honest[];
}

type CheatYaml = Pick<Cheat, 'name' | 'does' | 'gains' | 'rule'> & Partial<Pick<Cheat, 'passes'>>;

interface FamilyYaml {
  title: string;
  /** Whether each cheat is a kernel of its own, in a folder with its name. */
  apart?: boolean;
  cheats: Record<string, CheatYaml>;
}

interface CorpusYaml {
  rules: Record<string, string>;
  families: Record<string, FamilyYaml>;
  honest: { kernel: string; parameters?: Record<string, number>; why: string }[];
}

const parametersOf = (cheat: number | undefined): Cheat['parameters'] => (cheat === undefined ? {} : { CHEAT: cheat });

/** Errors: if a cheat names a rule that the file does not have, or two entries have one name. */
export function readCorpus(): Corpus {
  const { rules, families, honest } = parse(readFileSync(join(repositoryRoot(), CORPUS_FILE), 'utf8')) as CorpusYaml;
  const cheats = Object.entries(families).flatMap(([family, { apart, cheats: numbered }]) =>
    Object.entries(numbered).map(([number, { name, does, gains, rule, passes = {} }]) => ({
      kernel: `kernels/corpus/${apart ? name : family}`,
      parameters: parametersOf(apart ? undefined : Number(number)),
      name,
      family,
      does,
      gains,
      rule,
      passes,
    })),
  );
  for (const { name, rule } of cheats)
    if (!Object.hasOwn(rules, rule))
      throw new Error(
        `${CORPUS_FILE}: the rule of ${name} must be one of ${Object.keys(rules).join(', ')}, got ${rule}`,
      );
  const names = cheats.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new Error(`${CORPUS_FILE}: names must differ, got ${twice} twice`);
  return {
    families: Object.fromEntries(Object.entries(families).map(([id, { title }]) => [id, title])),
    rules,
    cheats,
    honest: honest.map(({ kernel, parameters = {}, why }) => ({ kernel, parameters, why })),
  };
}

/**
 * Cheats that are not in corpus.yaml: every kernel below `folder` counts as a cheat and has the name of its folder.
 * Errors: if there is no kernel.
 */
export function cheatsInFolder(folder: string): Cheat[] {
  const found = readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && existsSync(join(folder, entry.name, 'kernel.yaml')))
    .map(({ name }): Cheat => {
      const kernel = resolve(folder, name);
      const { title } = parse(readFileSync(join(kernel, 'kernel.yaml'), 'utf8')) as { title: string };
      const unknown = { gains: '', rule: '', passes: {} };
      return { kernel, parameters: {}, name, family: basename(resolve(folder)), does: title, ...unknown };
    });
  if (found.length === 0) throw new Error(`Wanted folders with a kernel.yaml in ${folder}, found none`);
  return found;
}

/** Whether a cheat is judged, and is caught, gains nothing, or passes for a reason that corpus.yaml documents. */
export const isAnswered = (
  { caught, error, rule, passes }: Pick<Cheat, 'rule' | 'passes'> & { caught: boolean; error?: string },
  place: Place,
): boolean => caught || (error === undefined && (rule === 'no_gain' || passes[place] !== undefined));

/** The name in the tables, such as "flashcore_v9 STAGES=3". */
export const nameOf = ({ kernel, parameters }: CorpusKernel): string =>
  [kernel.split('/').at(-1), ...Object.entries(parameters).map(([name, value]) => `${name}=${value}`)].join(' ');
