/** Files and folders of the user, including files that others put there. */
export { HAND_WRITTEN_BYTES, readForeignFile, readForeignText, whyUnreadable } from './foreign-file.ts';
export { lackOfAddressSpace } from './address-space.ts';
export {
  makeFolder,
  whyUnwritable,
  configFolder,
  isDataFolder,
  isOwnData,
  stateFolder,
  credentialsIn,
  withoutCredentials,
  withoutSecrets,
} from './user-folders.ts';
export { killGroup, killMarked, isRunning, killIfThere, killProcessGroup } from './left-processes.ts';
