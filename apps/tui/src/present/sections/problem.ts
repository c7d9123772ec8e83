/** A problem: what its definition says, its cases by name, and the kernels that compute it. */
import type { Shape } from '@flashcore/shared/contract';
import { type Problem, formatShape } from '@flashcore/shared/kernels';
import { fact, facts, heading, notice, tableOf, type Block, type Column } from '../blocks.ts';
import { piece } from '../roles.ts';
import { caseColumns, sharedBlocks } from './case-columns.ts';

/** A problem of this installation or project, as it is read from its folder. */
export interface ListedProblem {
  readonly id: string;
  /** Undefined if the definition or its cases can't be read. */
  readonly problem?: Problem;
  /** The reason why the definition or its cases can't be read. */
  readonly error?: string;
  readonly sets: Readonly<Record<string, readonly Shape[]>>;
  /** Kernels whose sources are on this machine, the simplest first. */
  readonly kernels: readonly { readonly id: string; readonly folder: string }[];
}

/** Dtypes that a kernel of the problem may choose. */
export const dtypesOf = ({ tensors }: Problem): string[] => [...new Set(tensors.flatMap(({ dtypes }) => dtypes))];

/** The number of different cases in all sets. */
export const caseCount = ({ sets }: Pick<ListedProblem, 'sets'>): number =>
  new Set(
    Object.values(sets)
      .flat()
      .map((shape) => formatShape(shape)),
  ).size;

type Axis = Problem['axes'][number];
type Attribute = Problem['attributes'][number];
type Tensor = Problem['tensors'][number];

const AXIS_COLUMNS: readonly Column<Axis>[] = [
  { title: 'axis', cell: ({ name }) => piece(name, 'title') },
  { title: 'default', cell: ({ default: fallback }) => fallback?.text ?? piece('-', 'dim') },
  { title: 'what it is', shrinkTo: 20, cell: ({ about }) => about },
];

/** Text such as "window (-1, or the case's): keys before a query's own that it sees". A table would cut the text. */
const attributeText = ({ name, value, default: fallback, about }: Attribute): string =>
  `${name} (${value ? `= ${value.text}` : `${fallback}, or the case's`}): ${about}`;

const TENSOR_COLUMNS: readonly Column<Tensor>[] = [
  { title: 'tensor', cell: ({ name }) => piece(name, 'title') },
  { title: 'in/out', cell: ({ direction, optional }) => `${direction}${optional ? ', optional' : ''}` },
  { title: 'dimensions', cell: ({ dims }) => `[${dims.map(({ text }) => text).join(', ')}]` },
  { title: 'dtype', cell: ({ ownDtype }) => ownDtype ?? "the kernel's" },
  { title: 'only if', drop: 1, cell: ({ when }) => when?.text ?? piece('-', 'dim') },
];

/** The definition. `champions` are labels of champions that compute the problem. */
export function problemBlocks(listed: ListedProblem, champions: readonly string[] = []): Block[] {
  const { id, problem, error, sets, kernels } = listed;
  if (problem === undefined) return [heading(id), notice(error ?? 'cannot be read', 'bad')];
  const { title, axes, attributes, tensors, require, mutants, baselines } = problem;
  return [
    heading(id, title),
    facts(
      fact('dtypes', dtypesOf(problem).join(', ')),
      baselines.length > 0 ? fact('baselines', baselines.join(', ')) : undefined,
      fact('kernels', kernels.map((kernel) => kernel.id).join(', ') || 'none'),
      champions.length > 0 ? fact('champions', champions.join(', ')) : undefined,
      fact('new kernel', `fa-tui new NAME --problem ${id}`),
    ),
    heading('Axes'),
    tableOf(AXIS_COLUMNS, axes),
    ...(attributes.length === 0
      ? []
      : [heading('Attributes'), ...attributes.map((each) => notice(attributeText(each)))]),
    heading('Tensors'),
    tableOf(TENSOR_COLUMNS, tensors),
    ...(require.length === 0
      ? []
      : [
          heading('Conditions on cases'),
          ...require.map(({ require: expression, because }) => notice(`${expression.text} (${because})`)),
        ]),
    ...Object.entries(sets).flatMap(([set, shapes]) => setBlocks(set, shapes)),
    heading('Mutants', 'mistakes that the cases must find'),
    ...mutants.map(({ name, about }) => notice(`${name}: ${about}`)),
  ];
}

function setBlocks(set: string, shapes: readonly Shape[]): Block[] {
  return [
    heading(`Cases ${set}`),
    ...sharedBlocks(shapes),
    tableOf(caseColumns(shapes, { shape: (shape) => shape }), shapes),
  ];
}
