/** Folders of the user. */
export { makeFolder } from './make-folder.ts';
export { configFolder, stateFolder } from './user-folders.ts';
export { killMarked } from './left-processes.ts';
