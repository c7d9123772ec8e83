/**
 * Arithmetic in manifests and problems: numbers, names, + - * / % ( ) < <= > >= == != && || ! ?: and ceil floor sqrt
 * min max. `/` is real division.
 */
import jsep from 'jsep';
import { entryOf } from '../text/entry-of.ts';

const MAX_LENGTH = 500;

export class ExpressionError extends Error {
  override readonly name = 'ExpressionError';
}

/** A parsed expression; `names` are the variables in it. */
export interface Expression {
  readonly text: string;
  readonly names: readonly string[];
  readonly root: ExpressionNode;
}

export type ExpressionNode =
  | { kind: 'number'; value: number }
  | { kind: 'name'; name: string }
  | { kind: 'unary'; operator: UnaryOperator; operand: ExpressionNode }
  | { kind: 'binary'; operator: BinaryOperator; left: ExpressionNode; right: ExpressionNode }
  | { kind: 'choice'; test: ExpressionNode; then: ExpressionNode; else: ExpressionNode }
  | { kind: 'call'; function: FunctionName; operands: ExpressionNode[] };

/** Parses an expression. Throws ExpressionError, which says what is wrong. */
export function parseExpression(text: string): Expression {
  if (text.length > MAX_LENGTH) throw new ExpressionError(`${text.length} characters: must be at most ${MAX_LENGTH}`);
  const root = convert(parseSyntax(text));
  const names = new Set<string>();
  collectNames(root, names);
  return { text, names: [...names], root };
}

/**
 * The value of an expression over `scope`; true is 1 and false is 0. Throws ExpressionError if a name is not in scope
 * or the result is not finite (a division by zero).
 */
export function evaluate(expression: Expression, scope: Readonly<Record<string, number>>): number {
  const value = compiled(expression.root)(scope);
  if (!Number.isFinite(value))
    throw new ExpressionError(
      `"${expression.text}" is not a finite number (${value}) for ${describeScope(expression, scope)}`,
    );
  return value;
}

/** The value over `scope`, or `otherwise` if evaluation fails. */
export function valueOr(otherwise: number, expression: Expression, scope: Readonly<Record<string, number>>): number {
  try {
    return evaluate(expression, scope);
  } catch (error) {
    if (error instanceof ExpressionError) return otherwise;
    throw error;
  }
}

const UNARY = { '-': (a: number) => -a, '+': (a: number) => a, '!': (a: number) => Number(!a) };
type UnaryOperator = keyof typeof UNARY;

const BINARY = {
  '+': (a: number, b: number) => a + b,
  '-': (a: number, b: number) => a - b,
  '*': (a: number, b: number) => a * b,
  '/': (a: number, b: number) => a / b,
  '%': (a: number, b: number) => a % b,
  '<': (a: number, b: number) => Number(a < b),
  '<=': (a: number, b: number) => Number(a <= b),
  '>': (a: number, b: number) => Number(a > b),
  '>=': (a: number, b: number) => Number(a >= b),
  '==': (a: number, b: number) => Number(a === b),
  '!=': (a: number, b: number) => Number(a !== b),
};
/** Operators that skip their right side if the left side is 0 (&&) or not 0 (||), with the result in that case. */
const LOGICAL = { '&&': 0, '||': 1 };
type BinaryOperator = keyof typeof BINARY | keyof typeof LOGICAL;

const FUNCTIONS = { ceil: Math.ceil, floor: Math.floor, sqrt: Math.sqrt, min: Math.min, max: Math.max };
const ARGUMENT_COUNTS: Record<FunctionName, { least: number; most: number }> = {
  ceil: { least: 1, most: 1 },
  floor: { least: 1, most: 1 },
  sqrt: { least: 1, most: 1 },
  min: { least: 1, most: Infinity },
  max: { least: 1, most: Infinity },
};
type FunctionName = keyof typeof FUNCTIONS;
/** Functions that expressions may call. */
export const FUNCTION_NAMES: readonly string[] = Object.keys(FUNCTIONS);

type Scope = Readonly<Record<string, number>>;
type Compiled = (scope: Scope) => number;

/**
 * Expressions compiled to functions, which take a third of the time of walking the tree: drawing shapes evaluates
 * expressions thousands of times.
 */
const COMPILED = new WeakMap<ExpressionNode, Compiled>();

function compiled(node: ExpressionNode): Compiled {
  const known = COMPILED.get(node);
  if (known) return known;
  const made = compile(node);
  COMPILED.set(node, made);
  return made;
}

function compile(node: ExpressionNode): Compiled {
  switch (node.kind) {
    case 'number':
      return () => node.value;
    case 'name':
      return (scope) => valueOf(node.name, scope);
    case 'unary': {
      const [apply, operand] = [UNARY[node.operator], compile(node.operand)];
      return (scope) => apply(operand(scope));
    }
    case 'binary':
      return compileBinary(node);
    case 'choice': {
      const [test, then, otherwise] = [compile(node.test), compile(node.then), compile(node.else)];
      return (scope) => (test(scope) ? then(scope) : otherwise(scope));
    }
    case 'call': {
      const [apply, operands] = [FUNCTIONS[node.function], node.operands.map(compile)];
      return (scope) => apply(...(operands.map((operand) => operand(scope)) as [number]));
    }
  }
}

function compileBinary({ operator, left, right }: Extract<ExpressionNode, { kind: 'binary' }>): Compiled {
  const [a, b] = [compile(left), compile(right)];
  // The right side may only be meaningful if the left one holds: "D > 0 && S / D > 2".
  if (operator === '&&' || operator === '||') {
    const decided = LOGICAL[operator];
    return (scope) => (Number(Boolean(a(scope))) === decided ? decided : Number(Boolean(b(scope))));
  }
  const apply = BINARY[operator];
  return (scope) => apply(a(scope), b(scope));
}

function valueOf(name: string, scope: Scope): number {
  const value = entryOf(scope, name);
  if (value === undefined)
    throw new ExpressionError(`Unknown name "${name}": known here are ${Object.keys(scope).join(', ')}`);
  return value;
}

function parseSyntax(text: string): jsep.Expression {
  try {
    return jsep(text);
  } catch (error) {
    const hint = /(?<![<>=!])=(?!=)/.test(text) ? '; equality is ==' : '';
    throw new ExpressionError(`Cannot read "${text}": ${(error as Error).message}${hint}`, { cause: error });
  }
}

/** Converts jsep's tree, which covers most of JavaScript, to the closed set of nodes above. */
function convert(expression: jsep.Expression): ExpressionNode {
  const node = expression as jsep.CoreExpression;
  switch (node.type) {
    case 'Literal':
      if (typeof node.value === 'number' && Number.isFinite(node.value)) return { kind: 'number', value: node.value };
      throw new ExpressionError(`${node.raw}: must be a number`);
    case 'Identifier':
      return { kind: 'name', name: node.name };
    case 'UnaryExpression':
      return { kind: 'unary', operator: known(UNARY, node.operator, 'operator'), operand: convert(node.argument) };
    case 'BinaryExpression':
      return {
        kind: 'binary',
        operator: known({ ...BINARY, ...LOGICAL }, node.operator, 'operator'),
        left: convert(node.left),
        right: convert(node.right),
      };
    case 'ConditionalExpression':
      return {
        kind: 'choice',
        test: convert(node.test),
        then: convert(node.consequent),
        else: convert(node.alternate),
      };
    case 'CallExpression':
      return convertCall(node);
    case 'Compound':
      throw new ExpressionError(
        node.body.length === 0
          ? 'empty: must be an expression'
          : 'several expressions: an operator is missing, or a comma is outside of min() and max()',
      );
    case 'SequenceExpression':
    case 'MemberExpression':
    case 'ThisExpression':
    case 'ArrayExpression':
      throw new ExpressionError('must have numbers, names, operators, and ceil floor sqrt min max only');
  }
}

function convertCall({ callee, arguments: operands }: jsep.CallExpression): ExpressionNode {
  const name = known(FUNCTIONS, callee.type === 'Identifier' ? (callee as jsep.Identifier).name : '?', 'function');
  const { least, most } = ARGUMENT_COUNTS[name];
  if (operands.length < least || operands.length > most)
    throw new ExpressionError(
      `${name}() has ${operands.length} arguments: must have ${least === most ? least : `${least} or more`}`,
    );
  return { kind: 'call', function: name, operands: operands.map(convert) };
}

function known<Table extends object>(table: Table, key: string, what: string): keyof Table {
  if (Object.hasOwn(table, key)) return key as keyof Table;
  throw new ExpressionError(`Unknown ${what} "${key}": known are ${Object.keys(table).join(' ')}`);
}

function collectNames(node: ExpressionNode, names: Set<string>): void {
  switch (node.kind) {
    case 'number':
      break;
    case 'name':
      names.add(node.name);
      break;
    case 'unary':
      collectNames(node.operand, names);
      break;
    case 'binary':
      collectNames(node.left, names);
      collectNames(node.right, names);
      break;
    case 'choice':
      for (const part of [node.test, node.then, node.else]) collectNames(part, names);
      break;
    case 'call':
      for (const operand of node.operands) collectNames(operand, names);
      break;
  }
}

const describeScope = ({ names }: Expression, scope: Readonly<Record<string, number>>) =>
  names.map((name) => `${name} = ${entryOf(scope, name)}`).join(', ');
