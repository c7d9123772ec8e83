/**
 * Checks that a recorded experiment shows the same digits on the screen, in the plain report and in the Markdown copy.
 */
import { expect, test } from 'vitest';
import { insideOf } from '../present/cells/frame.ts';
import { rowText } from '../present/cells/row.ts';
import { plainLines } from '../present/plain/plain-painter.ts';
import type { ReportFormat } from '../present/plain/report-format.ts';
import { jobBlocks } from '../present/sections/job.ts';
import { Store } from '../session/store.ts';
import { initialState, type ViewId } from '../state/app-state.ts';
import { MEASURED, measuredEvents, measuredJob, type MeasuredName } from '../testing/measured-job.ts';
import { focusedPane } from './chrome/layout.ts';
import { screenOf } from './chrome/message.ts';
import { copyOf } from './copy.ts';
import { VIEW_FUNCTIONS } from './views.ts';

const RESULTS = ['correct', 'latency', 'profile', 'gates'] as const satisfies ViewId[];
// Wide enough for every column of a table.
const PLAIN: ReportFormat = { width: 400, colors: false, ascii: false };

/** A figure and its unit, if it has one, such as "5.817 us" or "4.88e-4". */
const FIGURE = /(?<![\w.-])\d+\.\d+(?:e[-+]\d+)?(?: (?:ns|us|ms|s|%|[KMG]iB|[TG]B\/s|TFLOP\/s|MHz))?(?![\w.])/g;
const figuresIn = (text: string): Set<string> => new Set(text.match(FIGURE));

/** Figures that the other text has with different digits, because one of the two is rounded. */
function drifted(texts: ReadonlySet<string>, others: ReadonlySet<string>): string[] {
  return [...texts].flatMap((text) =>
    others.has(text) ? [] : [...others].filter((other) => isRounded(text, other) || isRounded(other, text)),
  );
}

function isRounded(short: string, long: string): boolean {
  const [[a = '', unitA = ''], [b = '', unitB = '']] = [short.split(' '), long.split(' ')];
  const digits = a
    .replace(/e.*/, '')
    .replace(/^0\.0*/, '')
    .replace('.', '').length;
  const most = b
    .replace(/e.*/, '')
    .replace(/^0\.0*/, '')
    .replace('.', '').length;
  return (
    unitA === unitB && digits > 2 && digits < most && Number(b).toPrecision(digits) === Number(a).toPrecision(digits)
  );
}

function textsOf(name: MeasuredName, view: ViewId): { screen: string; copied: string; plain: string } {
  const recorded = measuredJob(name);
  const store = new Store({
    state: initialState({ runner: { label: 'gpu01:50051', embedded: false }, columns: 200, rows: 60, now: 0 }),
  });
  store.dispatch({ type: 'attach', job: recorded.job!.name });
  for (const event of measuredEvents(name)) store.dispatch({ type: 'job-event', event });
  store.dispatch({ type: 'show', view });
  const snapshot = { state: store.state, log: store.log, search: undefined };
  const { body } = VIEW_FUNCTIONS[view](snapshot, insideOf(focusedPane(screenOf(store.state))));
  return {
    screen: body.map(rowText).join('\n'),
    copied: copyOf(snapshot, 'markdown').text,
    plain: plainLines(jobBlocks({ job: recorded.job!, result: recorded.result }), PLAIN).join('\n'),
  };
}

test.each(MEASURED.flatMap((name) => RESULTS.map((view) => [name, view] as const)))(
  'figures of %s have the same digits in view %s, its copy and the report',
  (name, view) => {
    const { screen, copied, plain } = textsOf(name, view);
    const [onScreen, inCopy, inReport] = [screen, copied, plain].map(figuresIn) as [
      Set<string>,
      Set<string>,
      Set<string>,
    ];
    expect([...inCopy].filter((figure) => !inReport.has(figure))).toEqual([]);
    expect(drifted(onScreen, inReport)).toEqual([]);
    // A view with results has figures to compare.
    if (inCopy.size > 0) expect([...onScreen].some((figure) => inCopy.has(figure))).toBe(true);
  },
);

test('the check finds a figure that one text rounds and the other does not', () => {
  expect(drifted(figuresIn('p50 5.82 us'), figuresIn('p50 5.817 us'))).toEqual(['5.817 us']);
  expect(drifted(figuresIn('worst 4.88e-4, 500.0 ms'), figuresIn('worst 4.88e-4, 3.120 us'))).toEqual([]);
});
