import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { withoutSecrets } from '@flashcore/shared/files';

const LIMIT_MS = 5_000;
const MAX_BYTES = 64 * 1024;
const MAX_FILES = 16;

/** A user certificate that sshd no longer accepts. */
export interface ExpiredCertificate {
  readonly file: string;
  /** Local time in ssh-keygen's form: 2026-11-22T08:00:00. */
  readonly at: string;
}

/** The first expired certificate among these files. Missing files, and files that are not certificates, are skipped. */
export async function expiredCertificate(
  files: readonly string[],
  environment: NodeJS.ProcessEnv,
  now = new Date(),
): Promise<ExpiredCertificate | undefined> {
  for (const file of files
    .map((name) => expanded(name, environment))
    .filter((name) => existsSync(name))
    .slice(0, MAX_FILES)) {
    const at = /Valid: from \S+ to (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)/.exec(await described(file, environment))?.[1];
    if (at !== undefined && new Date(at) < now) return { file, at };
  }
  return undefined;
}

const expanded = (file: string, environment: NodeJS.ProcessEnv): string =>
  file.startsWith('~/') ? path.join(environment['HOME'] || homedir(), file.slice(2)) : file;

/** ssh-keygen's description of a file; empty if the file is not a certificate. */
function described(file: string, environment: NodeJS.ProcessEnv): Promise<string> {
  const env = withoutSecrets(environment);
  return new Promise((resolve) => {
    execFile('ssh-keygen', ['-L', '-f', file], { env, timeout: LIMIT_MS, maxBuffer: MAX_BYTES }, (error, stdout) =>
      resolve(error ? '' : stdout),
    );
  });
}
