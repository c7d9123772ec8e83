import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { makeFolder } from '@flashcore/shared/files';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { addClient, clientCertificatePath, initTls } from './certificates.ts';
import { RevokedCertificates, DEFAULT_TOKEN_DAYS, MAX_TOKEN_DAYS, TokenFile } from './credential-files.ts';
import { DEFAULT_ROLE, ROLE_NAMES, ROLES, type Role } from './roles.ts';

/** A week. A longer lifetime is given with --days. */
const MAX_TOKEN_HOURS = 168;

interface Flags {
  data: string;
  tls?: string;
  role: Role;
}

const roleOption = (): Option =>
  new Option('--role <role>', ROLE_NAMES.map((role) => `${role}: ${ROLES[role].join(', ')}`).join('; '))
    .choices(ROLE_NAMES)
    .default(DEFAULT_ROLE);

interface InitOptions {
  host: string[];
  data: string;
  out?: string;
}

/**
 * Adds the commands that prepare a runner for clients on other machines and then exit. `say` prints a line on stdout.
 */
export function addAccessCommands(
  program: Command,
  { defaultData, say }: { defaultData: string; say: (line: string) => void },
): void {
  const ofData = (command: Command): Command =>
    command.option('--data <folder>', "the runner's data folder", defaultData);
  const ofTls = (command: Command): Command =>
    ofData(command).option('--tls <folder>', 'the folder with ca.crt and ca.key (default: tls/ in the data folder)');
  const tlsFolder = ({ tls, data }: Flags): string => resolve(tls ?? join(data, 'tls'));

  const tls = program.command('tls').description('makes and revokes certificates of clients');
  ofData(tls.command('init'))
    .description('makes a private authority, a certificate for this runner and one for a client')
    .option('--host <name...>', 'names and addresses that clients use for this machine', [])
    .option('--out <folder>', 'the folder to write them to (default: tls/ in the data folder)')
    .action(({ host, data, out }: InitOptions) => {
      const folder = resolve(out ?? join(data, 'tls'));
      say(`made ${initTls(folder, host).join(', ')} in ${folder}`);
      say(
        'give a client ca.crt, client.crt and client.key; keep ca.key away from runners: its holder can make a certificate for anyone',
      );
    });
  ofTls(tls.command('client <name>'))
    .description('makes a certificate for one more client')
    .addOption(roleOption())
    .action((name: string, flags: Flags) => {
      const { certificate, key } = addClient(tlsFolder(flags), { name, role: flags.role });
      say(`made ${certificate} and ${key}: give them to ${name} with ca.crt`);
    });
  ofTls(tls.command('revoke <client>'))
    .description('revokes a certificate, given by client name or PEM file: its next call is refused')
    .action((client: string, flags: Flags) => {
      const named = clientCertificatePath(tlsFolder(flags), client);
      say(`revoked ${new RevokedCertificates(dataFolder(flags)).add(existsSync(named) ? named : resolve(client))}`);
    });

  const token = program
    .command('token')
    .description('makes, lists and revokes bearer tokens, for serve --clients token');
  const tokens = (flags: Flags): TokenFile => new TokenFile(dataFolder(flags));
  ofData(token.command('add <name>'))
    .description('makes a token and prints it; it is shown only once')
    .addOption(roleOption())
    .addOption(
      new Option('--days <days>', `days until the token expires, 1 to ${MAX_TOKEN_DAYS}`)
        .default(DEFAULT_TOKEN_DAYS)
        .argParser((text) => wholeNumber(text, MAX_TOKEN_DAYS)),
    )
    .addOption(
      new Option('--hours <hours>', `hours until it expires, 1 to ${MAX_TOKEN_HOURS}, instead of --days`).argParser(
        (text) => wholeNumber(text, MAX_TOKEN_HOURS),
      ),
    )
    .action((name: string, { days, hours = days * 24, ...flags }: Flags & { days: number; hours?: number }) =>
      say(tokens(flags).add(name, { ...flags, hours })),
    );
  ofData(token.command('list'))
    .description('lists the tokens: name, role, when each was made, when it expires')
    .action((flags: Flags) =>
      tokens(flags)
        .list()
        .forEach(({ name, role, created, expires = 'never: make a new one' }) =>
          say(`${name}\t${role}\t${created}\t${expires}`),
        ),
    );
  ofData(token.command('revoke <name>'))
    .description('revokes a token: its next call is refused')
    .action((name: string, flags: Flags) => tokens(flags).revoke(name));
}

function wholeNumber(text: string, most: number): number {
  const number = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (number < 1 || number > most) throw new InvalidArgumentError(`must be 1 to ${most}.`);
  return number;
}

function dataFolder({ data }: Flags): string {
  const folder = resolve(data);
  makeFolder(folder);
  return folder;
}
