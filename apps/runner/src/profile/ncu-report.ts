import { entryOf } from '@flashcore/shared/text';
import type { CounterValues } from './counters.ts';

/** One profiled launch, in the order of ncu's ids. */
export interface ProfiledLaunch {
  id: number;
  kernel: string;
  counters: CounterValues;
}

/**
 * Parses the output of `ncu --csv` after ncu's own lines ("==PROF== …"): wide (`--page raw`: a row of names, a row of
 * units, then a row per launch) or long (`--page details`: a row per metric). Numbers have thousands separators; values
 * that are not numbers ("n/a", "(!) nan") are absent.
 */
export function parseNcuCsv(text: string): ProfiledLaunch[] {
  const rows = parseCsv(
    text
      .split(/\r?\n/)
      .filter((line) => line.startsWith('"'))
      .join('\n'),
  );
  const [names] = rows;
  if (!names) return [];
  return names.includes('Metric Name') ? longLaunches(names, rows.slice(1)) : wideLaunches(names, rows.slice(1));
}

/**
 * Factors to nanoseconds, bytes and percent. `--print-units base` prints these units; reports printed without it are
 * accepted too.
 */
const UNIT_FACTORS: Record<string, number> = {
  s: 1e9,
  second: 1e9,
  ms: 1e6,
  msecond: 1e6,
  us: 1e3,
  usecond: 1e3,
  ns: 1,
  nsecond: 1,
  Kbyte: 1e3,
  Mbyte: 1e6,
  Gbyte: 1e9,
  'Kbyte/block': 1e3,
};

function wideLaunches(names: readonly string[], rows: readonly string[][]): ProfiledLaunch[] {
  const [units = [], ...launches] = rows;
  return launches.map((row) => {
    const counters = new Map<string, number>();
    names.forEach((name, column) => addCounter(counters, name, units[column] ?? '', row[column] ?? ''));
    return { id: Number(row[names.indexOf('ID')]), kernel: row[names.indexOf('Kernel Name')] ?? '', counters };
  });
}

function longLaunches(names: readonly string[], rows: readonly string[][]): ProfiledLaunch[] {
  const column = (row: readonly string[], name: string): string => row[names.indexOf(name)] ?? '';
  return [...Map.groupBy(rows, (row) => column(row, 'ID'))].map(([id, metrics]) => {
    const counters = new Map<string, number>();
    for (const row of metrics)
      addCounter(counters, column(row, 'Metric Name'), column(row, 'Metric Unit'), column(row, 'Metric Value'));
    return { id: Number(id), kernel: column(metrics[0]!, 'Kernel Name'), counters };
  });
}

/** Counter names contain a double underscore; other columns describe the launch. */
function addCounter(counters: Map<string, number>, name: string, unit: string, text: string): void {
  if (!name.includes('__')) return;
  const value = Number(text.replaceAll(',', ''));
  if (text.trim() !== '' && Number.isFinite(value)) counters.set(name, value * (entryOf(UNIT_FACTORS, unit) ?? 1));
}

/** RFC 4180 as ncu writes it: every field in quotes; a doubled quote stands for one. */
function parseCsv(text: string): string[][] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map(fieldsOf);
}

function fieldsOf(line: string): string[] {
  const fields: string[] = [];
  for (let at = 0; line[at] === '"';) {
    const parts: string[] = [];
    let begin = at + 1;
    let quote = line.indexOf('"', begin);
    // Kernel names are foreign input, so each character is read only once.
    while (quote >= 0 && line[quote + 1] === '"') {
      parts.push(line.slice(begin, quote + 1));
      begin = quote + 2;
      quote = line.indexOf('"', begin);
    }
    if (quote < 0) break;
    fields.push(parts.join('') + line.slice(begin, quote));
    at = quote + 2;
  }
  return fields;
}
