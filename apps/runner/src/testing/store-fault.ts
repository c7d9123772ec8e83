import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { DatabaseSync } from 'node:sqlite';

// SQLite's own codes: SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_BUSY.
const SQLITE_CODES: Record<string, number> = { ENOSPC: 13, EIO: 778, SQLITE_BUSY: 5 };
const FILE_CALLS = ['openSync', 'writeSync', 'writeFileSync', 'mkdirSync', 'renameSync', 'fdatasyncSync'] as const;

/**
 * Makes the store's calls fail: "ENOSPC 7 1500" fails every call from the seventh on, for 1.5 s, like a disk that is
 * full for that time; EIO and SQLITE_BUSY likewise. These calls are begins, changes and commits of the database, and
 * opening, writing, making, renaming or syncing files below `folder`.
 */
export function armStoreFault(text: string, folder: string): void {
  const [, code = '', from, forMs] = /^(ENOSPC|EIO|SQLITE_BUSY) (\d+) (\d+)$/.exec(text) ?? [];
  if (!forMs) throw new Error(`A fault must be such as "ENOSPC 7 1500", got "${text}"`);
  let left = Number(from);
  let endsAt = Infinity;
  const fails = (): boolean => {
    left -= 1;
    if (left === 0) endsAt = performance.now() + Number(forMs);
    return left <= 0 && performance.now() < endsAt;
  };
  failDatabase(fails, SQLITE_CODES[code]!);
  // Only the database can be busy.
  if (code !== 'SQLITE_BUSY') failFiles(fails, code, folder);
}

function failDatabase(fails: () => boolean, errcode: number): void {
  const failing = (): Error =>
    Object.assign(new Error('injected'), { code: 'ERR_SQLITE_ERROR', errcode, errstr: 'injected' });
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called on its own database below
  const { exec, prepare } = DatabaseSync.prototype;
  DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string): void {
    if ((sql === 'BEGIN IMMEDIATE' || sql === 'COMMIT') && fails()) throw failing();
    exec.call(this, sql);
  };
  DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string) {
    const statement = prepare.call(this, sql);
    if (!/^\s*(INSERT|UPDATE|DELETE)/.test(sql)) return statement;
    const run = statement.run.bind(statement) as (...values: unknown[]) => unknown;
    statement.run = ((...values: unknown[]) => {
      if (fails()) throw failing();
      return run(...values);
    }) as typeof statement.run;
    return statement;
  };
}

function failFiles(fails: () => boolean, code: string, folder: string): void {
  const opened = new Set<number>();
  const functions = fs as unknown as Record<string, (...values: unknown[]) => unknown>;
  for (const name of FILE_CALLS) {
    const real = functions[name]!;
    functions[name] = (...values) => {
      const [target, flags] = values;
      const ours = typeof target === 'string' ? target.startsWith(folder) : opened.has(target as number);
      // Making a folder that exists takes no space, nor does reading a file.
      const needless = name === 'mkdirSync' && fs.existsSync(target as string);
      const writes = !needless && (name !== 'openSync' || (typeof flags === 'string' && flags !== 'r'));
      if (ours && writes && fails())
        throw Object.assign(new Error(`${code}: injected, ${name}`), { code, syscall: name });
      const answer = real(...values);
      if (name === 'openSync' && ours) opened.add(answer as number);
      return answer;
    };
  }
  syncBuiltinESMExports();
}

/**
 * Makes this process kill itself at a step of the store: "7 before" just before its seventh commit, "7 after" just
 * after it, "7 torn" in the middle of the transaction. For tests of what a crash at any step leaves behind.
 */
export function armFailpoint(text: string): void {
  const [, digits, where] = /^(\d+) (before|after|torn)$/.exec(text) ?? [];
  if (!where) throw new Error(`A failpoint must be such as "7 before", got "${text}"`);
  let left = Number(digits);
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called on its own database below
  const { exec } = DatabaseSync.prototype;
  const die = (): void => process.kill(process.pid, 'SIGKILL') as unknown as void;
  DatabaseSync.prototype.exec = function failing(this: DatabaseSync, sql: string): void {
    // A migration runs as one SQL text with its own BEGIN and COMMIT, so it is not counted as a step.
    const begins = sql === 'BEGIN IMMEDIATE';
    if (begins) left -= 1;
    if (left === 0 && where === 'before' && sql === 'COMMIT') die();
    exec.call(this, sql);
    if (left === 0 && where === 'after' && sql === 'COMMIT') die();
    if (left === 0 && where === 'torn' && begins) setTornWrite();
  };
  // eslint-disable-next-line @typescript-eslint/unbound-method -- as above
  const { prepare } = DatabaseSync.prototype;
  let torn = false;
  const setTornWrite = (): void => {
    torn = true;
  };
  DatabaseSync.prototype.prepare = function watched(this: DatabaseSync, sql: string) {
    const statement = prepare.call(this, sql);
    if (sql.startsWith('SELECT')) return statement;
    const run = statement.run.bind(statement) as (...values: unknown[]) => unknown;
    statement.run = ((...values: unknown[]) => {
      const answer = run(...values);
      if (torn) die();
      return answer;
    }) as typeof statement.run;
    return statement;
  };
}
