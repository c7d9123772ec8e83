import type { Command, Option } from 'commander';
import { entryOf } from '@flashcore/shared/text';

/** A word that fits, and what it is. */
export interface Candidate {
  readonly word: string;
  readonly about: string;
}

/** Names that only the runner or the user's files know. */
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

/** The names of a kind; none where nobody can tell them quickly. `kernel`: whose parameters are meant. */
export type Names = (kind: NameKind, kernel: string) => Promise<readonly Candidate[]>;

/** What a value is, by the option that takes it. A file where nothing is known. */
const VALUES: Readonly<Record<string, NameKind>> = {
  '--kernel': 'kernel',
  '--champion': 'kernel',
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
  '--resume': 'search',
  '--show': 'search',
};

/** The same by the name of an argument in the usage line. */
const ARGUMENTS: Readonly<Record<string, NameKind>> = {
  'kernel or folder': 'kernel',
  job: 'job',
  jobs: 'job',
  runner: 'runner',
  problem: 'problem',
};

/** Arguments with a few words of their own. */
const WORDS: Readonly<Record<string, readonly string[]>> = {
  config: ['config'],
  host: ['claude', 'codex', 'cursor'],
};

const GLOBAL_WITH_TERMINAL = ['--inline', '--mouse'];

/**
 * What fits the last of `words`, those of the line after the program's name: commands, options, their values, names of
 * kernels and jobs. Nothing where a file is meant.
 */
export async function completeLine(
  program: Command,
  words: readonly string[],
  names: Names,
): Promise<readonly Candidate[]> {
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
  /** What stands before the candidate in the same word: "--mode=". */
  readonly prefix: string;
}

/** Bash hands "--mode=ho" over as three words, others as one; either way the option's value is completed. */
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

/** Words that are no options and no values of them. */
function plainWords(options: readonly Option[], words: readonly string[]): string[] {
  const valued = new Set(options.filter(takesValue).flatMap(namesOf));
  return words.filter((word, index) => !word.startsWith('-') && !valued.has(words[index - 1] ?? ''));
}

function commandOf(program: Command, before: readonly string[]): Command | undefined {
  const [name] = plainWords(program.options, before);
  return program.commands.find((command) => command.name() === name);
}

/** The arguments that the command has got so far. */
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

/** What stands at the command's next argument: a name, or one of those that its usage line lists, "<show|path>". */
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
  // A file or a folder.
  if (given[0] === 'import') return [];
  const listed = argument.argChoices ?? entryOf(WORDS, name);
  if (listed) return listed.map((word) => ({ word, about: '' }));
  const kind = command.name() === 'cancel' ? 'open job' : entryOf(ARGUMENTS, name);
  return kind === undefined ? [] : names(kind, '');
}
