import type { Command } from 'commander';
import { noteOption, type Define } from './option-groups.ts';
import type { GlobalOptions } from './options.ts';

const JOB = ['<job>', 'its name or first digits'] as const;

/** Adds the commands for decisions about results, and for champions. */
export function addDecisionCommands(program: Command, define: Define): void {
  type Noted = GlobalOptions & { note?: string };
  const decision = (name: string, about: string) =>
    noteOption(
      program
        .command(name)
        .argument(...JOB)
        .description(about),
    );
  define<Noted & { over?: string; save?: string | true }>(
    decision('accept', "make a job's build the champion of its kernel, device model, shapes and protocol")
      .option('--over <job>', 'the champion that it was compared with, or none (default: what its result names)')
      .option('--save [folder]', "add it, with its sources, to a folder (default: flashcore.yaml's, else ./champions)"),
    async (context, options, job) => (await import('./decide.ts')).acceptJob(job, options, context),
  );
  define<Noted>(
    decision('reject', "reject a job's result; if it is champion, it no longer is"),
    async (context, options, job) => (await import('./decide.ts')).rejectJob(job, options, context),
  );
  define<Noted>(decision('undo', 'undo the latest decision about a job'), async (context, options, job) =>
    (await import('./decide.ts')).undoDecision(job, options, context),
  );
  const noted = program
    .command('note')
    .argument(...JOB)
    .argument('<text>', 'the note')
    .description('add a note to a result');
  define(noted, async (context, _, job, text) => (await import('./decide.ts')).noteJob(job, text, context));
  const champions = program
    .command('champions')
    .option('--trail', 'also every decision that was made')
    .option('--kernel <id>', 'only champions of this kernel')
    .option(
      '--save [folder]',
      "write them, with their sources, to a folder (default: flashcore.yaml's, else ./champions)",
    )
    .option('--load [folder]', 'run those of a folder again on this runner, and accept those that pass')
    .description('the builds that experiments are compared with; save them to a folder, or load them');
  type Champions = GlobalOptions & { trail?: boolean; kernel?: string; save?: string | true; load?: string | true };
  define<Champions>(champions, async (context, options) =>
    (await import('./champions.ts')).champions(options, context),
  );
}

/** Adds the commands for stored logins. */
export function addLoginCommands(program: Command, define: Define): void {
  const login = program
    .command('login')
    .argument('<address>', 'host:port of a runner that serves TLS, or ssh://host to reach it through ssh')
    .option('--name <name>', "name to give to --runner (default: the address's host)")
    .description('store how to reach a runner: a token (typed, or from stdin), or --tls-cert with --tls-key');
  define<GlobalOptions & { name?: string }>(login, async (context, options, address) =>
    (await import('./login.ts')).login(address, options, context),
  );
  const logout = program
    .command('logout')
    .argument('<name>', 'as fa-tui runners lists it')
    .description('forget a runner and its credential');
  define(logout, async (context, _, name) => (await import('./login.ts')).logout(name, context));
  define(program.command('runners').description('the runners you are logged in to'), async (context) =>
    (await import('./login.ts')).listRunners(context),
  );
}
