/**
 * Translates manifest expressions to Python and C++ with the same values as `evaluate`: numbers are doubles, true is
 * 1.0, `%` is fmod, a division by zero is infinite, and NaN is false. The code calls the helpers below by name.
 */
import type { Expression, ExpressionNode } from '../data/expression.ts';

/** How a language spells each element of the grammar. */
export interface ExpressionLanguage {
  number: (value: number) => string;
  name: (name: string) => string;
  /** Converts a condition to 1.0 or 0.0. */
  truth: (condition: string) => string;
  /** A condition that holds if a value is neither 0 nor NaN. */
  holds: (value: string) => string;
  not: (condition: string) => string;
  and: (a: string, b: string) => string;
  or: (a: string, b: string) => string;
  choice: (condition: string, then: string, otherwise: string) => string;
  divide: (a: string, b: string) => string;
  remainder: (a: string, b: string) => string;
  call: (name: 'ceil' | 'floor' | 'sqrt' | 'min' | 'max', operands: string[]) => string;
}

const decimal = (value: number): string =>
  Number.isInteger(value) && Math.abs(value) < 1e15 ? `${value}.0` : `${value}`;

// Words that are allowed as names of constants but not of Python variables.
const PYTHON_WORDS = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if
  import in is lambda nonlocal not or pass raise return try while with yield math shape launches workspace
  plan Launch`.split(/\s+/),
);

export const PYTHON: ExpressionLanguage = {
  number: decimal,
  name: (name) => (PYTHON_WORDS.has(name) || name.startsWith('_') ? `${name}_` : name),
  truth: (condition) => `(1.0 if ${condition} else 0.0)`,
  holds: (value) => `_holds(${value})`,
  not: (condition) => `not ${condition}`,
  and: (a, b) => `(${a} and ${b})`,
  or: (a, b) => `(${a} or ${b})`,
  choice: (condition, then, otherwise) => `(${then} if ${condition} else ${otherwise})`,
  divide: (a, b) => `_divide(${a}, ${b})`,
  remainder: (a, b) => `_remainder(${a}, ${b})`,
  call: (name, operands) => `_${name}(${operands.join(', ')})`,
};

/** Names get a prefix, because a constant in capitals is also a macro of the kernel's source. */
export const CPP: ExpressionLanguage = {
  number: decimal,
  name: (name) => `v_${name}`,
  truth: (condition) => `(${condition} ? 1.0 : 0.0)`,
  holds: (value) => `fc_holds(${value})`,
  not: (condition) => `!${condition}`,
  and: (a, b) => `(${a} && ${b})`,
  or: (a, b) => `(${a} || ${b})`,
  choice: (condition, then, otherwise) => `(${condition} ? ${then} : ${otherwise})`,
  divide: (a, b) => `(${a} / ${b})`,
  remainder: (a, b) => `std::fmod(${a}, ${b})`,
  call: (name, operands) =>
    name === 'ceil' || name === 'floor' || name === 'sqrt'
      ? `std::${name}(${operands[0]})`
      : operands.reduce((folded, operand) => `fc_${name}(${folded}, ${operand})`),
};

/** Functions that PYTHON's code calls. */
export const PYTHON_HELPERS = `def _holds(value):
    return value == value and value != 0


def _divide(a, b):
    if b != 0:
        return a / b
    return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _remainder(a, b):
    return math.nan if b == 0 or math.isinf(a) else math.fmod(a, b)


def _ceil(value):
    return float(math.ceil(value)) if math.isfinite(value) else value


def _floor(value):
    return float(math.floor(value)) if math.isfinite(value) else value


def _sqrt(value):
    return math.sqrt(value) if value >= 0 else math.nan


def _min(*values):
    return math.nan if any(value != value for value in values) else min(values)


def _max(*values):
    return math.nan if any(value != value for value in values) else max(values)
`;

/** Functions that CPP's code calls; requires <cmath>. */
export const CPP_HELPERS = `static inline bool fc_holds(double value) { return value == value && value != 0; }
static inline double fc_min(double a, double b) { return a != a || b != b ? NAN : a < b ? a : b; }
static inline double fc_max(double a, double b) { return a != a || b != b ? NAN : a > b ? a : b; }
`;

/** An expression in a language. Its value is a double. */
export const expressionCode = ({ root }: Pick<Expression, 'root'>, language: ExpressionLanguage): string =>
  valueCode(root, language);

function valueCode(node: ExpressionNode, language: ExpressionLanguage): string {
  const value = (each: ExpressionNode): string => valueCode(each, language);
  switch (node.kind) {
    case 'number':
      return language.number(node.value);
    case 'name':
      return language.name(node.name);
    case 'unary':
      return node.operator === '!'
        ? language.truth(conditionCode(node, language))
        : `(${node.operator}${value(node.operand)})`;
    case 'choice':
      return language.choice(conditionCode(node.test, language), value(node.then), value(node.else));
    case 'call':
      return language.call(node.function, node.operands.map(value));
    case 'binary':
      if (node.operator === '/') return language.divide(value(node.left), value(node.right));
      if (node.operator === '%') return language.remainder(value(node.left), value(node.right));
      return ['+', '-', '*'].includes(node.operator)
        ? `(${value(node.left)} ${node.operator} ${value(node.right)})`
        : language.truth(conditionCode(node, language));
  }
}

/** Code for a node whose truth value is all that is needed. */
function conditionCode(node: ExpressionNode, language: ExpressionLanguage): string {
  if (node.kind === 'unary' && node.operator === '!') return `(${language.not(conditionCode(node.operand, language))})`;
  if (node.kind === 'binary') {
    const { operator, left, right } = node;
    if (operator === '&&') return language.and(conditionCode(left, language), conditionCode(right, language));
    if (operator === '||') return language.or(conditionCode(left, language), conditionCode(right, language));
    if (['<', '<=', '>', '>=', '==', '!='].includes(operator))
      return `(${valueCode(left, language)} ${operator} ${valueCode(right, language)})`;
  }
  return language.holds(valueCode(node, language));
}
