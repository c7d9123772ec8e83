/** The text of an imported problem's files, problem.yaml and cases.yaml. */
import { casesSource, parseCases, parseProblem } from '@flashcore/shared/kernels';
import { entryOf } from '@flashcore/shared/text';
import { parse } from 'yaml';
import type { ImportedCases } from './imported-cases.ts';
import type { Form } from './attention-forms.ts';
import { yamlText, type Plain } from './yaml-text.ts';

/** Texts by file name. */
export type ProblemFiles = Readonly<Record<'problem.yaml' | 'cases.yaml', string>>;

/** If nothing is paged, the drawn tables include lengths near multiples of this number of rows. */
const TILE = 64;
const LOG2_OF_E = 1.4426950408889634;
/** Tensors that the definition lacks. The judge draws the tables of a case from them. */
const KEY_LENGTHS = 'kv_lengths';
const QUERY_LENGTHS = 'qo_lengths';
const LONGEST = 'kv_len';

/** The files of a definition. They are parsed once here, as a runner does, so that mistakes are found now. */
export function problemFiles(form: Form, cases: ImportedCases): ProblemFiles {
  const { definition } = form;
  const files = {
    'problem.yaml': yamlText(problemOf(form, cases.scale), [
      `${definition.name} of FlashInfer-Bench, imported: docs/problems.md says how this file is read.`,
      ...differences(form),
    ]),
    'cases.yaml': yamlText(casesOf(form, cases), cases.comments),
  };
  const problem = parseProblem(files['problem.yaml'], `${definition.id}/problem.yaml`);
  parseCases(files['cases.yaml'], `${definition.id}/cases.yaml`, problem);
  return files;
}

/** Descriptions of the differences between the problem and the definition. */
function differences({ keys, queries, wholePages, absent }: Form): string[] {
  const drawn = [...(queries === 'packed' ? [QUERY_LENGTHS] : []), KEY_LENGTHS].join(' and ');
  return [
    'Tensors have the names and the layout of the definition. sm_scale is the attribute of that name.',
    `${drawn}: not in the definition; the judge draws the tables from these lengths.`,
    ...(keys === 'paged'
      ? [
          `${LONGEST}: the longest sequence, in place of num_pages and num_kv_indices. kv_indices has room for sequences that are all as long, and entries behind kv_indptr[-1] are a page that belongs to nobody.`,
        ]
      : []),
    ...(wholePages ? ['Nothing says where a sequence ends in its last page: it fills all of it.'] : []),
    ...(absent.length > 0 ? [`Optional inputs are not given: ${absent.join(', ')}.`] : []),
    'A query before the first key of its sequence sees none: its output is 0 and its lse minus infinity.',
  ];
}

function problemOf(form: Form, scale: string): Plain {
  const { definition, queries, keys } = form;
  const causal = queries === 'packed' ? 2 : 0;
  return {
    id: definition.id,
    title: titleOf(form),
    axes: axesOf(form),
    attributes: {
      scale: { value: scale, about: 'sm_scale: factor of the logits' },
      causal: { value: String(causal), about: causal ? 'the last query sees the last key' : 'a query sees all keys' },
    },
    require: constantsOf(form).map(([axis, extent]) => ({
      require: `${axis} == ${extent}`,
      because: 'it is a constant of the definition',
    })),
    tensors: tensorsOf(form),
    symmetries: symmetriesOf(form),
    mutants: mutantsOf(form),
    reference: referenceOf(form),
    work: { flops: flopsOf(form, keys === 'paged' ? LONGEST : 'total_kv / batch_size') },
  };
}

function titleOf({ queries, keys, axes }: Form): string {
  const what = axes.moreWidth === undefined ? 'Attention' : 'Multi-head latent attention';
  const of = queries === 'packed' ? 'packed sequences of queries, causal' : 'one query a sequence';
  return `${what} of ${of}, over ${keys === 'paged' ? 'a paged cache' : 'packed keys'}`;
}

const constantsOf = ({ definition, axes }: Form): [string, number][] =>
  [...new Set(Object.values(axes))].flatMap((axis) =>
    axis === undefined ? [] : [[axis, entryOf(definition.axes, axis)!] as [string, number]],
  );

function axesOf(form: Form): Plain {
  const { queries, keys } = form;
  const abouts: Plain = {
    num_qo_heads: 'heads of queries',
    num_kv_heads: 'heads of keys, each for as many heads of queries',
    page_size: 'rows of a page',
  };
  return {
    batch_size: { draw: 'count', about: 'sequences' },
    ...(queries === 'packed' && { total_q: { draw: 'length', about: 'queries of all sequences together' } }),
    ...(keys === 'paged'
      ? { [LONGEST]: { draw: 'length', about: 'longest sequence' } }
      : { total_kv: { draw: 'length', about: 'keys of all sequences together' } }),
    ...Object.fromEntries(
      constantsOf(form).map(([axis, extent]) => [
        axis,
        { default: extent, draw: 'width', about: entryOf(abouts, axis) ?? 'columns' },
      ]),
    ),
  };
}

const PAGES_OF_ALL = `batch_size * ceil(${LONGEST} / page_size)`;
const POOL = `${PAGES_OF_ALL} + 1`;

function tensorsOf({ queries, keys, dtype, axes, tensors, wholePages }: Form): Plain {
  const rows = queries === 'packed' ? 'total_q' : 'batch_size';
  const owned = keys === 'paged' ? { rows: 'kv_indices' } : {};
  const same = { dtype: `same_as(${tensors.q})` };
  const keyShape = (width: string): Plain => ({
    in: [
      ...(keys === 'paged' ? [POOL, 'page_size'] : ['total_kv']),
      ...(axes.keyHeads === undefined ? [] : [axes.keyHeads]),
      width,
    ],
  });
  const table = (dims: string[], draw: Plain): Plain => ({ in: dims, dtype: 'int32', draw });
  const paging = { lengths: KEY_LENGTHS, page: 'page_size' };
  return {
    [tensors.q]: { in: [rows, axes.heads, axes.width], dtype: [dtype], role: 'q' },
    ...(tensors.moreQ !== undefined && {
      [tensors.moreQ]: { in: [rows, axes.heads, axes.moreWidth], ...same, role: 'q' },
    }),
    [tensors.k]: { ...keyShape(axes.width), ...same, role: 'k', ...owned },
    ...(tensors.v !== tensors.k && { [tensors.v]: { ...keyShape(axes.valueWidth), ...same, ...owned } }),
    ...(tensors.moreK !== undefined && {
      [tensors.moreK]: { ...keyShape(axes.moreWidth!), ...same, role: 'k', ...owned },
    }),
    ...(queries === 'packed' && {
      [QUERY_LENGTHS]: table(['batch_size'], { lengths: { sum: 'total_q', page: TILE } }),
      qo_indptr: table(['batch_size + 1'], { offsets: QUERY_LENGTHS }),
    }),
    ...(keys === 'paged'
      ? {
          [KEY_LENGTHS]: table(['batch_size'], {
            lengths: { most: LONGEST, page: 'page_size', ...(wholePages && { multiple_of: 'page_size' }) },
          }),
          kv_indptr: table(['batch_size + 1'], { page_offsets: paging }),
          kv_indices: table([PAGES_OF_ALL], { pages: { ...paging, pool: POOL } }),
          ...(tensors.lastPages !== undefined && {
            [tensors.lastPages]: table(['batch_size'], { last_pages: paging }),
          }),
        }
      : {
          [KEY_LENGTHS]: table(['batch_size'], { lengths: { sum: 'total_kv', page: TILE } }),
          kv_indptr: table(['batch_size + 1'], { offsets: KEY_LENGTHS }),
        }),
    output: { out: [rows, axes.heads, axes.valueWidth], ...same },
    lse: { out: [rows, axes.heads], dtype: 'fp32', optional: true },
  };
}

/**
 * The problem's symmetries. If the keys are also the values, no symmetry may act on them, because the logits would
 * change.
 */
function symmetriesOf({ axes, tensors }: Form): Plain[] {
  const both = (axis: string, of: string[], acts: string[]): Plain[] => acts.map((act) => ({ [act]: axis, of }));
  if (tensors.moreQ !== undefined) return both(axes.moreWidth!, [tensors.moreQ, tensors.moreK!], ['permute', 'flip']);
  return [
    ...both(axes.width, [tensors.q, tensors.k], ['permute', 'flip']),
    ...both(axes.valueWidth, [tensors.v, 'output'], ['permute', 'flip', 'double']),
  ];
}

function mutantsOf(form: Form): Plain {
  const { queries, keys, axes, tensors, definition } = form;
  const extent = (axis: string | undefined): number => (axis === undefined ? 1 : entryOf(definition.axes, axis)!);
  const lengths = (entries: string, about: string): Plain => ({ tensor: KEY_LENGTHS, entries, about });
  const ownValues = tensors.v !== tensors.k;
  const isPage = extent(axes.page) > 1;
  const endsInside = isPage && !form.wholePages;
  return {
    zeros: { tensor: 'output', constant: 0, about: 'nothing is computed' },
    ...(queries === 'packed' && {
      mask_ignored: { set: { causal: 0 }, about: 'every query sees all keys of its sequence' },
      mask_from_the_top: { set: { causal: 1 }, about: 'the mask begins at the first key, not at the last' },
      queries_run_together: {
        ...{ tensor: 'qo_indptr', entries: 'entry == 0 ? 0 : total_q' },
        about: 'all queries are those of the first sequence',
      },
      queries_too_early: {
        ...{ tensor: 'qo_indptr', entries: 'max(0, entry - 1)' },
        about: 'sequences of queries begin and end one early',
      },
      queries_too_late: {
        ...{ tensor: 'qo_indptr', entries: 'min(total_q, entry + 1)' },
        about: 'sequences of queries begin and end one late',
      },
    }),
    scale_forgotten: { set: { scale: 1 }, about: 'logits are not scaled' },
    ...(keys === 'packed'
      ? {
          keys_too_early: {
            ...{ tensor: 'kv_indptr', entries: 'max(0, entry - 1)' },
            about: 'sequences of keys begin and end one early',
          },
          keys_too_late: {
            ...{ tensor: 'kv_indptr', entries: 'min(total_kv, entry + 1)' },
            about: 'sequences of keys begin and end one late',
          },
          values_shifted: { tensor: tensors.v, shift: 'total_kv', about: "each weight meets the next key's value" },
        }
      : {
          last_key_left_out: lengths('max(0, entry - 1)', 'the last key of a sequence is not seen'),
          last_split_left_out: lengths('ceil(entry / 2)', 'the second half of the keys is not merged into the result'),
          pages_shifted: { tensor: 'kv_indices', shift: PAGES_OF_ALL, about: 'pages are read one place further' },
          ...(isPage && {
            last_page_left_out: lengths(
              'max(0, ceil(entry / page_size) - 1) * page_size',
              'the last page of a sequence is not read',
            ),
          }),
          ...(endsInside && {
            one_key_too_many: lengths(
              'min(ceil(entry / page_size) * page_size, entry + 1)',
              'a key behind the sequence is seen',
            ),
            ragged_page_left_out: lengths(
              'floor(entry / page_size) * page_size',
              'a page that is not full is not read',
            ),
            last_page_read_whole: lengths(
              'ceil(entry / page_size) * page_size',
              "rows behind a sequence's end in its page are seen",
            ),
          }),
        }),
    ...(extent(axes.keyHeads) > 1 && {
      keys_of_next_head: { tensor: tensors.k, shift: axes.keyHeads, about: 'heads read the keys of the next head' },
      values_of_next_head: { tensor: tensors.v, shift: axes.keyHeads, about: 'heads read the values of the next head' },
    }),
    ...(extent(axes.heads) > 1 && {
      heads_written_shifted: { tensor: 'output', shift: axes.heads, about: "heads are written in each other's place" },
    }),
    ...(tensors.moreK !== undefined && {
      rotary_columns_forgotten: { tensor: tensors.moreK, constant: 0, about: 'only the latent columns are multiplied' },
      rotary_columns_shifted: { tensor: tensors.moreK, shift: axes.moreWidth, about: 'columns meet their neighbours' },
    }),
    keys_in_e4m3: { tensor: tensors.k, round: 'e4m3', about: 'keys in 8 bits' },
    ...(ownValues && {
      values_in_e4m3: { tensor: tensors.v, round: 'e4m3', about: 'values in 8 bits' },
      values_clamped: { tensor: tensors.v, clamp: 448, about: 'values end where e4m3 ends' },
    }),
    output_in_e5m2: { tensor: 'output', round: 'e5m2', about: 'the output in 8 bits' },
    lse_in_base_e: { tensor: 'lse', times: String(1 / LOG2_OF_E), about: 'lse is a natural logarithm' },
    last_element_unwritten: { tensor: 'output', unwritten: 'element', about: 'a ragged end is not written' },
    last_row_unwritten: { tensor: 'output', unwritten: 'row', about: 'the last head has no output' },
  };
}

function referenceOf({ queries, keys, axes, tensors }: Form): Plain {
  const query = queries === 'packed' ? 's h d' : 'b h d';
  const key = [...(keys === 'paged' ? ['b'] : []), 's', ...(axes.keyHeads === undefined ? [] : ['h']), 'd'].join(' ');
  const both = (first: string, more: string | undefined, dims: string): string =>
    `${first}${more === undefined ? '' : ` | ${more}`}[${dims}]`;
  return {
    op: 'attention',
    q: both(tensors.q, tensors.moreQ, query),
    k: both(tensors.k, tensors.moreK, key),
    v: `${tensors.v}[${key}]`,
    o: `output[${query}]`,
    lse: `lse[${query.replace(' d', '')}]`,
    lse_base: 2,
    ...(queries === 'packed' && { query_offsets: 'qo_indptr' }),
    ...(keys === 'paged'
      ? { key_lengths: KEY_LENGTHS, page_table: 'kv_indices', page_offsets: 'kv_indptr' }
      : { key_offsets: 'kv_indptr' }),
  };
}

/** FLOPs of two products over the visible keys. All sequences have the same length, as in timed launches. */
function flopsOf({ queries, axes }: Form, keysOfEach: string): string {
  const width = [axes.width, axes.moreWidth, axes.valueWidth].filter((axis) => axis !== undefined).join(' + ');
  const perPair = `2 * ${axes.heads} * (${width})`;
  if (queries === 'one each') return `${perPair} * batch_size * ${keysOfEach}`;
  const rows = `min(total_q / batch_size, ${keysOfEach})`;
  return `${perPair} * batch_size * ${rows} * (${keysOfEach} - (${rows} - 1) / 2)`;
}

/** The case sets, with tolerances and inputs of the most similar installed problem. */
function casesOf({ axes }: Form, { sets, probes }: ImportedCases): Plain {
  const id = axes.moreWidth === undefined ? 'attention_decode_paged' : 'mla_decode';
  const {
    tolerances,
    defaults,
    distributions,
    probes: known,
  } = parse(casesSource({ id }).text) as Plain & { probes: Plain };
  return {
    ...{ tolerances, defaults, distributions },
    probes: { shapes: probes, distributions: known['distributions'] },
    sets,
  };
}
