/** Folders of the user. */
export { makeFolder, whyUnwritable } from './make-folder.ts';
export { configFolder, stateFolder } from './user-folders.ts';
export { killGroup, killMarked } from './left-processes.ts';
