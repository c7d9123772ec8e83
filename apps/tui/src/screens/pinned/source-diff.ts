/** Line-by-line difference of the sources of two jobs: "-" is from the pinned job, "+" from the shown one. */
import { entryOf } from '@flashcore/shared/text';
import { run, textRow, wrapRows, type Role, type Row } from '../../present/cells/row.ts';
import { cutCells } from '../../present/cells/cell-text.ts';
import { counted } from '../../present/numbers.ts';
import type { AppState } from '../../state/app-state.ts';
import type { PinnedComparison } from '../../state/pinned.ts';
import { countLines, sourceChanges, type ChangedFile, type Hunk } from '../../state/source-changes.ts';

const NUMBER_CELLS = 5;

export function sourceDiffRows(state: AppState, comparison: PinnedComparison, width: number): Row[] {
  const files = sourceChanges(state, comparison);
  if (typeof files === 'string') return wrapRows(files, width, { role: 'dim' });
  const { added, removed } = countLines(files);
  return [
    [
      run(`${counted(files.length, 'compiled file')} differ${files.length === 1 ? 's' : ''}  `, 'title'),
      run(`+${added} `, 'good'),
      run(`-${removed}`, 'bad'),
      run('   + the shown job   - the pinned job', 'dim'),
    ],
    ...files.flatMap((file) => fileRows(file, width)),
  ];
}

function fileRows({ names, onlyIn, hunks }: ChangedFile, width: number): Row[] {
  const only = onlyIn === undefined ? '' : `, only in the ${onlyIn} job`;
  const title: Row = [run(`── ${names.join(' → ')}${only} `, 'accent')];
  if (hunks === undefined) return [title, textRow('   is being read', 'dim')];
  return [
    title,
    ...hunks.flatMap((hunk): Row[] => [
      [run(`@@ line ${hunk.oldStart} pinned, ${hunk.newStart} shown`, 'dim')],
      ...hunkRows(hunk, width),
    ]),
  ];
}

const LINE_ROLES: Record<string, Role> = { '+': 'good', '-': 'bad' };

function hunkRows({ newStart, oldStart, lines }: Hunk, width: number): Row[] {
  let [oldNumber, newNumber] = [oldStart, newStart];
  return lines
    .filter((line) => !line.startsWith('\\'))
    .map((line): Row => {
      const mark = line[0] ?? ' ';
      const number = mark === '-' ? oldNumber : newNumber;
      if (mark !== '+') oldNumber += 1;
      if (mark !== '-') newNumber += 1;
      return [
        run(`${String(number).padStart(NUMBER_CELLS)} `, 'dim'),
        run(
          cutCells(`${mark} ${line.slice(1).replaceAll('\t', '  ')}`, width - NUMBER_CELLS - 1),
          entryOf(LINE_ROLES, mark) ?? 'text',
        ),
      ];
    });
}
