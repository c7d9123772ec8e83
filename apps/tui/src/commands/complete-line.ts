import type { Command, Option } from 'commander';
import { entryOf } from '@flashcore/shared/text';
import { sanitize } from '../present/cells/cell-text.ts';
import type { Surroundings } from './context.ts';

/** A word that may complete the line, with its description. */
export interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** Kinds of names that are read from a runner or from the user's files. */
export type NameKind =
  | 'kernel'
  | 'job'
  | 'open job'
  | 'device'
  | 'plan'
  | 'case set'
  | 'tolerance'
  | 'runner'
  | 'parameter'
  | 'search'
  | 'problem';

/**
 * The names of a kind; empty if they cannot be found quickly. `kernel` is the kernel whose parameters are completed.
 */
export type Names = (kind: NameKind, kernel: string) => Promise<readonly Candidate[]>;

/** The kind of value of each option. The values of other options are completed as files. */
const VALUES: Readonly<Record<string, NameKind>> = {
  '--kernel': 'kernel',
  '--champion': 'kernel',
  '--backward': 'kernel',
  '--base': 'kernel',
  '--from': 'kernel',
  '--device': 'device',
  '--plan': 'plan',
  '--cases': 'case set',
  '--tolerance': 'tolerance',
  '--shapes': 'case set',
  '--runner': 'runner',
  '--set': 'parameter',
  '--champion-set': 'parameter',
  '--backward-set': 'parameter',
  '--resume': 'search',
  '--show': 'search',
};

/** The kinds of each argument, by its name in the usage line. */
const ARGUMENTS: Readonly<Record<string, readonly NameKind[]>> = {
  'kernel or folder': ['kernel'],
  job: ['job'],
  jobs: ['job'],
  'job or kernel': ['kernel', 'job'],
  runner: ['runner'],
  problem: ['problem'],
};

/** The words of arguments that have a few fixed values. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  config: ['config'],
  host: ['claude', 'codex', 'cursor'],
};

const GLOBAL_WITH_TERMINAL = ['--inline', '--mouse'];

/**
 * Candidates for the last of `words`: a command, an option, an option's value, a kernel or a job. `words` are the words
 * of the line after the program's name. Empty if a file is expected.
 */
async function completeLine(program: Command, words: readonly string[], names: Names): Promise<readonly Candidate[]> {
  const { before, current, prefix } = splitLine(words);
  const command = commandOf(program, before);
  const fits = (all: readonly Candidate[]): Candidate[] =>
    all.filter(({ word }) => word.startsWith(current)).map(({ word, about }) => ({ word: `${prefix}${word}`, about }));
  const options = [...(command?.options ?? []), ...program.options.filter((option) => heeds(command, option))].filter(
    ({ hidden }) => !hidden,
  );
  const asked = options.find((option) => takesValue(option) && namesOf(option).includes(before.at(-1) ?? ''));
  const kernel = command ? (argumentsOf(command, program, before)[0] ?? '') : '';
  if (asked) return fits(await valuesOf(asked, kernel, names));
  if (current.startsWith('-')) return fits(options.map(optionCandidate));
  if (!command) return fits(commandsOf(program));
  return fits(await argumentValues(program, command, { before, names }));
}

interface Line {
  readonly before: readonly string[];
  readonly current: string;
  /** The part of the word before the candidate, such as "--mode=". */
  readonly prefix: string;
}

/** Bash passes "--mode=ho" as three words, other shells as one. Both forms complete the option's value. */
function splitLine(words: readonly string[]): Line {
  const current = words.at(-1) ?? '';
  const before = words.slice(0, -1);
  if (current === '=' && before.at(-1)?.startsWith('--')) return { before, current: '', prefix: '' };
  if (before.at(-1) === '=') return { before: before.slice(0, -1), current, prefix: '' };
  const [, option, value] = /^(--[a-z-]+)=(.*)$/s.exec(current) ?? [];
  if (option === undefined) return { before, current, prefix: '' };
  return { before: [...before, option], current: value ?? '', prefix: `${option}=` };
}

const takesValue = ({ required, optional }: Option): boolean => required || optional;
const namesOf = ({ long, short }: Option): string[] => [long, short].flatMap((name) => name ?? []);
const heeds = (command: Command | undefined, { long }: Option): boolean =>
  command === undefined || command.name() === 'start' || !GLOBAL_WITH_TERMINAL.includes(long ?? '');

/** Words that are neither options nor option values. */
function plainWords(options: readonly Option[], words: readonly string[]): string[] {
  const valued = new Set(options.filter(takesValue).flatMap(namesOf));
  return words.filter((word, index) => !word.startsWith('-') && !valued.has(words[index - 1] ?? ''));
}

function commandOf(program: Command, before: readonly string[]): Command | undefined {
  const [name] = plainWords(program.options, before);
  return program.commands.find((command) => command.name() === name);
}

/** The arguments of the command that are complete. */
const argumentsOf = (command: Command, program: Command, before: readonly string[]): string[] =>
  plainWords([...command.options, ...program.options], before).slice(1);

const firstSentence = (text: string): string => text.split(/[.;(]/, 1)[0]!.trim();

const commandsOf = (program: Command): Candidate[] =>
  program.commands.map((command) => ({ word: command.name(), about: firstSentence(command.description()) }));

const optionCandidate = (option: Option): Candidate => ({
  word: option.long ?? option.short ?? '',
  about: firstSentence(option.description),
});

async function valuesOf(option: Option, kernel: string, names: Names): Promise<readonly Candidate[]> {
  if (option.argChoices) return option.argChoices.map((word) => ({ word, about: '' }));
  const kind = entryOf(VALUES, option.long ?? '');
  return kind === undefined ? [] : names(kind, kernel);
}

/** Candidates for the command's next argument: names, or the words listed in its usage line, such as "<show|path>". */
async function argumentValues(
  program: Command,
  command: Command,
  { before, names }: { before: readonly string[]; names: Names },
): Promise<readonly Candidate[]> {
  const given = argumentsOf(command, program, before);
  if (command.name() === 'help') return given.length === 0 ? commandsOf(program) : [];
  const last = command.registeredArguments.at(-1);
  const argument = command.registeredArguments[given.length] ?? (last?.variadic ? last : undefined);
  if (!argument) return [];
  const name = argument.name();
  // The argument of `problem import` is a file or a folder.
  if (given[0] === 'import') return [];
  const listed = argument.argChoices ?? entryOf(WORDS, name);
  if (listed) return listed.map((word) => ({ word, about: '' }));
  const kinds: readonly NameKind[] = command.name() === 'cancel' ? ['open job'] : (entryOf(ARGUMENTS, name) ?? []);
  return (await Promise.all(kinds.map((kind) => names(kind, '')))).flat();
}

/** Answers a shell's completion script with candidates for the last of `words`, one per line. */
export async function complete(
  program: Command,
  words: readonly string[],
  { environment, stdout }: Surroundings,
): Promise<void> {
  // Most lines need no runner, so gRPC is loaded only if a name is needed.
  const names: Names = async (kind, kernel) =>
    (await import('./known-names.ts')).knownNames(environment, runnerOf(words))(kind, kernel);
  const found = await completeLine(program, words, names);
  stdout.write(found.map(({ word, about }) => `${sanitize(word)}${about ? `\t${sanitize(about)}` : ''}\n`).join(''));
}

/** The value of --runner in the line, if it has one. */
function runnerOf(words: readonly string[]): string | undefined {
  const at = words.slice(0, -1).findIndex((word) => word === '--runner' || word.startsWith('--runner='));
  if (at < 0) return undefined;
  const inline = words[at]!.slice('--runner='.length);
  return words[at] === '--runner' ? words.slice(at + 1, -1).find((word) => word !== '=') : inline;
}
