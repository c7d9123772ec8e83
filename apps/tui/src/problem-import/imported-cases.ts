/** The case sets of an imported problem: workloads of the definition, and small cases to verify. */
import { MAX_EXTENT } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import type { Workload } from './definition.ts';
import { NotImportable, type Form } from './attention-forms.ts';

export type Case = Readonly<Record<string, number>>;

export interface ImportedCases {
  /** Expression for the factor of the logits. */
  readonly scale: string;
  readonly sets: Readonly<Record<string, readonly Case[]>>;
  /** Shapes of probes. */
  readonly probes: readonly Case[];
  /** Comments above the sets. */
  readonly comments: readonly string[];
  /** Number of workloads that became cases, and of all workloads of the definition. */
  readonly taken: number;
  readonly found: number;
}

/** Limit on the cases of a set in cases.yaml. */
const MOST_CASES = 64;
/** Two scalars whose relative difference is smaller are equal. Scalars are float32 values written as decimals. */
const SAME_SCALE = 1e-6;
/** Limit on the elements of a cache or of the queries. At 2 bytes each, no current device has that much memory. */
const MOST_ELEMENTS = 2 ** 37;

interface SmallCases {
  readonly parity: readonly Case[];
  readonly probes: readonly Case[];
  readonly emulated: Case;
  readonly quick: Case;
  /** The canonical case, if there are no workloads. */
  readonly canonical: Case;
}

const PAGED_ONE_EACH: SmallCases = {
  parity: [
    { batch_size: 7, kv_len: 200 },
    { batch_size: 3, kv_len: 257 },
    { batch_size: 1, kv_len: 1024 },
  ],
  probes: [{ batch_size: 7, kv_len: 70 }],
  emulated: { batch_size: 4, kv_len: 130 },
  quick: { batch_size: 5, kv_len: 70 },
  canonical: { batch_size: 32, kv_len: 8192 },
};
const PAGED_PACKED: SmallCases = {
  parity: [
    { batch_size: 7, total_q: 200, kv_len: 160 },
    { batch_size: 1, total_q: 65, kv_len: 257 },
    { batch_size: 3, total_q: 130, kv_len: 300 },
  ],
  probes: [{ batch_size: 6, total_q: 90, kv_len: 70 }],
  emulated: { batch_size: 4, total_q: 100, kv_len: 130 },
  quick: { batch_size: 5, total_q: 60, kv_len: 70 },
  canonical: { batch_size: 8, total_q: 4096, kv_len: 4096 },
};
const PACKED: SmallCases = {
  parity: [
    { batch_size: 7, total_q: 300, total_kv: 400 },
    { batch_size: 1, total_q: 65, total_kv: 257 },
    { batch_size: 3, total_q: 200, total_kv: 200 },
  ],
  probes: [{ batch_size: 6, total_q: 100, total_kv: 150 }],
  emulated: { batch_size: 4, total_q: 150, total_kv: 150 },
  quick: { batch_size: 5, total_q: 60, total_kv: 90 },
  canonical: { batch_size: 8, total_q: 8192, total_kv: 8192 },
};

/** Small cases. If sequences are assumed to fill their pages, lengths are rounded up to whole pages. */
function smallCases({ queries, keys, wholePages, axes, definition }: Form): SmallCases {
  if (keys === 'packed') return PACKED;
  const cases = queries === 'packed' ? PAGED_PACKED : PAGED_ONE_EACH;
  if (!wholePages) return cases;
  const page = entryOf(definition.axes, axes.page!)!;
  const whole = (each: Case): Case => ({ ...each, kv_len: Math.ceil(entryOf(each, 'kv_len')! / page) * page });
  const { parity, probes, emulated, quick, canonical } = cases;
  return {
    ...{ parity: parity.map(whole), probes: probes.map(whole) },
    ...{ emulated: whole(emulated), quick: whole(quick), canonical: whole(canonical) },
  };
}

/** The cases of a form and its workloads. Errors: NotImportable for an invalid scale. */
export function importCases(form: Form, workloads: readonly Workload[]): ImportedCases {
  const small = smallCases(form);
  const scales = new Scales(form, workloads);
  const left = new Map<string, number>();
  const leave = (why: string): [] => {
    left.set(why, (left.get(why) ?? 0) + 1);
    return [];
  };
  const seen = new Set<string>();
  const cases = workloads.flatMap((workload): Case[] => {
    if (!scales.has(workload)) return leave('another sm_scale');
    const found = caseOf(form, workload.axes);
    if (typeof found === 'string') return leave(found);
    const key = Object.values(found).join();
    if (seen.has(key)) return leave('the same case as another');
    seen.add(key);
    return [found];
  });
  const taken = cases.slice(0, MOST_CASES);
  if (cases.length > MOST_CASES) left.set(`more than the ${MOST_CASES} of a set`, cases.length - MOST_CASES);
  const canonical = taken.toSorted((a, b) => pairsOf(b) - pairsOf(a))[0] ?? small.canonical;
  const { parity, probes, emulated, quick } = small;
  return {
    scale: scales.expression,
    sets: {
      parity,
      canonical: [canonical],
      ...(taken.length > 0 && { workloads: taken }),
      emulated: [emulated],
      quick: [quick],
    },
    probes,
    comments: commentsOf(form, { taken: taken.length, found: workloads.length, left }),
    taken: taken.length,
    found: workloads.length,
  };
}

interface Counts {
  taken: number;
  found: number;
  /** Number of omitted workloads by reason. */
  left: ReadonlyMap<string, number>;
}

function commentsOf({ definition, keys }: Form, { taken, found, left }: Counts): string[] {
  if (found === 0)
    return [`Cases of ${definition.name}. No workloads were found: \`canonical\` is not one of the data set's.`];
  return [
    `Cases of ${definition.name}. \`workloads\` has ${taken} of its ${found}, and \`canonical\` that of the most pairs of query and key.`,
    ...(keys === 'paged'
      ? ['The lengths of a workload are not in its axes: kv_len is the mean, in whole pages.']
      : ['The lengths of a workload are not in its axes: they are drawn.']),
    ...[...left].map(([why, count]) => `Left out: ${count}, ${why}.`),
  ];
}

const pairsOf = ({ batch_size: batch = 1, total_q: queries = batch, kv_len: each, total_kv: all }: Case): number =>
  queries * (each ?? (all ?? 1) / batch);

/** The case of a workload, or the reason why the workload cannot become a case. */
function caseOf({ definition, queries, keys, axes }: Form, found: Workload['axes']): Case | string {
  const named = (name: string): number => entryOf(found, name) ?? 0;
  const batch = entryOf(found, 'len_indptr') === undefined ? named('batch_size') : named('len_indptr') - 1;
  const [rows, allKeys] = [queries === 'packed' ? named('total_q') : batch, named('total_kv')];
  const page = axes.page === undefined ? 1 : entryOf(definition.axes, axes.page)!;
  const pages = named('num_kv_indices');
  if (batch < 1 || rows < 1 || (keys === 'paged' ? pages : allKeys) < 1) return 'an axis that is 0 or missing';
  if (queries === 'one each' && named('batch_size') !== batch) return 'len_indptr that is not batch_size + 1';
  const longest = Math.ceil(pages / batch) * page;
  const many = keys === 'paged' ? longest * batch : allKeys;
  if (queries === 'packed' && rows > many) return 'more queries than keys: most would see none';
  const ofRow = entryOf(definition.axes, axes.heads)! * entryOf(definition.axes, axes.width)!;
  if (Math.max(many, rows) * ofRow > MOST_ELEMENTS || longest > MAX_EXTENT) return 'more elements than a device holds';
  return {
    batch_size: batch,
    ...(queries === 'packed' && { total_q: rows }),
    ...(keys === 'paged' ? { kv_len: longest } : { total_kv: allKeys }),
  };
}

/** Finds the factor of the logits that most workloads have. */
class Scales {
  readonly expression: string;
  readonly #value: number;

  constructor({ definition, scaledBy }: Form, workloads: readonly Workload[]) {
    const usual = 1 / Math.sqrt(scaledBy);
    const counts = new Map<number, number>();
    for (const { scalars } of workloads) {
      const scale = entryOf(scalars, 'sm_scale');
      if (scale === undefined) continue;
      const same = [usual, ...counts.keys()].find((known) => isSame(known, scale)) ?? scale;
      counts.set(same, (counts.get(same) ?? 0) + 1);
    }
    const [most] = [...counts].toSorted(([, a], [, b]) => b - a)[0] ?? [usual];
    if (!(most > 0 && most < 1e4))
      throw new NotImportable(`sm_scale of ${definition.name}'s workloads: must be a number above 0, got ${most}`);
    this.#value = most;
    this.expression = most === usual ? `1 / sqrt(${scaledBy})` : String(most);
  }

  has({ scalars }: Workload): boolean {
    const scale = entryOf(scalars, 'sm_scale');
    return scale === undefined || isSame(this.#value, scale);
  }
}

const isSame = (a: number, b: number): boolean => Math.abs(a - b) <= SAME_SCALE * Math.abs(a);
