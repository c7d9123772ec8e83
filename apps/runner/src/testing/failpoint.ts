import { DatabaseSync } from 'node:sqlite';

/**
 * Makes this process kill itself at a step of the store: "7 before" just before its seventh commit, "7 after" just
 * after it, "7 torn" in the middle of the transaction. For tests of what a crash at any step leaves behind.
 */
export function armFailpoint(text: string): void {
  const [, digits, where] = /^(\d+) (before|after|torn)$/.exec(text) ?? [];
  if (!where) throw new Error(`Wanted a failpoint such as "7 before", found "${text}"`);
  let left = Number(digits);
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called on its own database below
  const { exec } = DatabaseSync.prototype;
  const die = (): void => process.kill(process.pid, 'SIGKILL') as unknown as void;
  DatabaseSync.prototype.exec = function failing(this: DatabaseSync, sql: string): void {
    // A migration is one text with its own COMMIT, so it is not a step of the store.
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
