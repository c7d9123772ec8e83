/** Files and folders of the user, including files that others put there. */
export { HAND_WRITTEN_BYTES, readForeignFile, readForeignText, whyUnreadable } from './foreign-file.ts';
export { lackOfAddressSpace } from './address-space.ts';
export { makeFolder, whyUnwritable } from './user-folders.ts';
export { configFolder, isDataFolder, isOwnData, stateFolder } from './user-folders.ts';
export { killGroup, killMarked } from './left-processes.ts';
export { credentialsIn, withoutCredentials, withoutSecrets } from './user-folders.ts';
export { isRunning, killIfThere, killProcessGroup } from './left-processes.ts';
