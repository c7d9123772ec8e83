import { readdirSync, realpathSync, rmSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { isDataFolder, isOwnData } from '@flashcore/shared/files';
import { lockDirectory } from '../store/directory-lock.ts';
import { UsageError } from '../usage-error.ts';

/**
 * Removes a runner's files from its data folder, and returns the names of the user's files there, which stay. Throws
 * UsageError for a folder that no runner has used or that is the user's home, DirectoryInUse while a runner uses it.
 */
export function purge(dataDirectory: string): string[] {
  if (!isDataFolder(dataDirectory))
    throw new UsageError(`${dataDirectory} must be the data folder of a runner: it has no flashcore.db; see --data`);
  if (realpathSync(dataDirectory) === realpathSync(homedir()))
    throw new UsageError(
      `${dataDirectory} must be a folder of flashcore's own, and it is your home, where "sources" or "tmp" may be yours: remove by hand what is flashcore's`,
    );
  const unlock = lockDirectory(dataDirectory);
  try {
    for (const name of readdirSync(dataDirectory).filter(isOwnData))
      rmSync(join(dataDirectory, name), { recursive: true, force: true });
  } finally {
    unlock();
  }
  return readdirSync(dataDirectory).filter((name) => !isOwnData(name));
}
