/** Folders of the user. */
export { makeFolder, whyUnwritable } from './make-folder.ts';
export { configFolder, stateFolder } from './user-folders.ts';
export { killMarked } from './left-processes.ts';
