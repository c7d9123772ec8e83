/** Opens the user's editor at a line, in the terminal that fa-tui lends to it. */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { withoutSecrets } from '@flashcore/shared/files';
import { entryOf } from '@flashcore/shared/text';

export interface SourcePlace {
  readonly file: string;
  /** Counted from 1; 0 if the line is not known. */
  readonly line: number;
  /** Counted from 1; 0 if the column is not known. */
  readonly column: number;
}

type Arguments = (place: SourcePlace) => string[];

const cursor: Arguments = ({ file, line, column }) => [
  column > 0 ? `+call cursor(${line},${column})` : `+${line}`,
  file,
];
const plusLineComma: Arguments = ({ file, line, column }) => [`+${line}${column > 0 ? `,${column}` : ''}`, file];
const plusLineColon: Arguments = ({ file, line, column }) => [`+${line}${column > 0 ? `:${column}` : ''}`, file];
const plusLine: Arguments = ({ file, line }) => [`+${line}`, file];
const fileColonLine: Arguments = ({ file, line, column }) => [`${file}:${line}${column > 0 ? `:${column}` : ''}`];
// These editors return at once unless they get --wait, and their window may be elsewhere.
const visualStudioCode: Arguments = (place) => ['--wait', '--goto', ...fileColonLine(place)];

/** The arguments that open a file at a line, by editor. Other editors get only the file. */
const KNOWN: Readonly<Record<string, Arguments>> = {
  // It may be one without functions.
  vi: plusLine,
  vim: cursor,
  nvim: cursor,
  view: plusLine,
  ex: plusLine,
  nano: plusLineComma,
  pico: plusLine,
  joe: plusLine,
  mg: plusLine,
  emacs: plusLineColon,
  emacsclient: plusLineColon,
  kak: plusLineColon,
  ne: plusLine,
  jed: plusLine,
  gedit: plusLine,
  micro: plusLineColon,
  hx: fileColonLine,
  helix: fileColonLine,
  zed: (place) => ['--wait', ...fileColonLine(place)],
  subl: (place) => ['--wait', ...fileColonLine(place)],
  code: visualStudioCode,
  'code-insiders': visualStudioCode,
  codium: visualStudioCode,
  cursor: visualStudioCode,
  windsurf: visualStudioCode,
};

/** $VISUAL, or else $EDITOR, or else vi. The command may include arguments. */
export const editorOf = ({ VISUAL, EDITOR }: NodeJS.ProcessEnv): string => VISUAL?.trim() || EDITOR?.trim() || 'vi';

/** The arguments after the editor's own command. */
export function editorArguments(editor: string, place: SourcePlace): string[] {
  const name = path.basename(editor.split(/\s+/)[0] ?? '').replace(/\.(exe|cmd)$/i, '');
  return place.line > 0 ? (entryOf(KNOWN, name) ?? (({ file }: SourcePlace) => [file]))(place) : [place.file];
}

/** Runs the editor on this process's terminal until it ends. Rejects if the editor does not start or fails. */
export function runEditor(place: SourcePlace, environment: NodeJS.ProcessEnv): Promise<void> {
  const editor = editorOf(environment);
  // Runs in a shell, as with git, because $EDITOR may contain arguments and quotes.
  const child = spawn('sh', ['-c', `${editor} "$@"`, editor, ...editorArguments(editor, place)], {
    stdio: 'inherit',
    env: withoutSecrets(environment),
  });
  return new Promise((resolve, reject) => {
    child.on('error', (error) => reject(new Error(`${editor} could not be started: ${error.message}`)));
    child.on('exit', (code, signal) => {
      if (code === 0) resolve();
      else
        reject(
          new Error(
            code === 127
              ? `There is no editor ${editor}: set VISUAL or EDITOR`
              : `The editor ${editor} ended with ${signal ?? `status ${code}`}`,
          ),
        );
    });
  });
}
