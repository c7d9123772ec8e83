import type { Command } from 'commander';
import type { Define } from './define-command.ts';
import type { GlobalOptions } from './options.ts';

/** Commands for stored logins. */
export function addLoginCommands(program: Command, define: Define): void {
  const login = program
    .command('login')
    .argument('<address>', 'host:port of a runner that serves TLS, or ssh://host before it')
    .option('--name <name>', "for --runner (default: the address's host)")
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
