import { expect, test } from 'vitest';
import { editorArguments, editorOf, runEditor } from './editor.ts';

const place = { file: '/k/a kernel.cu', line: 87, column: 9 };

test.each([
  ['vim', ['+call cursor(87,9)', '/k/a kernel.cu']],
  ['/usr/bin/nvim -u NONE', ['+call cursor(87,9)', '/k/a kernel.cu']],
  ['vi', ['+87', '/k/a kernel.cu']],
  ['nano', ['+87,9', '/k/a kernel.cu']],
  ['emacs -nw', ['+87:9', '/k/a kernel.cu']],
  ['kak', ['+87:9', '/k/a kernel.cu']],
  ['micro', ['+87:9', '/k/a kernel.cu']],
  ['hx', ['/k/a kernel.cu:87:9']],
  ['code -n', ['--wait', '--goto', '/k/a kernel.cu:87:9']],
  ['my-editor', ['/k/a kernel.cu']],
])('the editor %s gets the line and the column in the form that it understands', (editor, wanted) => {
  expect(editorArguments(editor, place)).toEqual(wanted);
});

test('an editor gets only the line if the column is not known', () => {
  const known = ['vim', 'nano', 'emacs', 'micro', 'hx'].map((editor) =>
    editorArguments(editor, { ...place, column: 0 }).join(' '),
  );
  expect(known).toEqual([...Array<string>(4).fill('+87 /k/a kernel.cu'), '/k/a kernel.cu:87']);
});

test('without a line every editor gets only the file', () => {
  expect(editorArguments('vim', { ...place, line: 0 })).toEqual(['/k/a kernel.cu']);
});

test('VISUAL takes precedence over EDITOR, and vi is the default', () => {
  expect([editorOf({ VISUAL: 'a', EDITOR: 'b' }), editorOf({ VISUAL: ' ', EDITOR: 'b -w' }), editorOf({})]).toEqual([
    'a',
    'b -w',
    'vi',
  ]);
});

test('the error names the editor if it is missing or fails', async () => {
  await expect(runEditor(place, { ...process.env, VISUAL: 'no-such-editor-here 2>/dev/null' })).rejects.toThrow(
    /There is no editor no-such-editor-here.*: set VISUAL or EDITOR/,
  );
  await expect(runEditor(place, { ...process.env, VISUAL: 'exit 3; #' })).rejects.toThrow(/ended with status 3/);
  await expect(runEditor(place, { ...process.env, VISUAL: 'true' })).resolves.toBeUndefined();
});
