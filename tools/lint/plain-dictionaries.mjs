/**
 * ESLint rule: an arbitrary text must not be used as a key of an object, because an object's prototype has keys too:
 * {}['toString'] is a function, and a value for '__proto__' is lost. entryOf() and setEntry() of @flashcore/shared/text
 * read and write an object safely. A Map has no such keys, and Object.fromEntries() turns a Map into an object.
 */
import { ESLintUtils } from '@typescript-eslint/utils';

/** The type of Node's process.env, which is exempt: its objects have only the environment's keys. */
const ENVIRONMENT = 'ProcessEnv';

export const noPlainDictionary = {
  meta: {
    type: 'problem',
    schema: [],
    messages: {
      has: 'ask Object.hasOwn(object, key): "toString" is in every object',
      assign: 'spread it, { ...object }: Object.assign() takes a key "__proto__" for the prototype',
      read: 'read it with entryOf(object, key) of @flashcore/shared/text: an object has keys of its prototype too',
      write:
        'write it with setEntry(object, key, value) of @flashcore/shared/text, or collect keys in a Map: "__proto__" is a key too',
    },
  },
  create(context) {
    const { program, esTreeNodeToTSNodeMap } = ESLintUtils.getParserServices(context);
    const checker = program.getTypeChecker();
    const typeOf = (node) => checker.getTypeAtLocation(esTreeNodeToTSNodeMap.get(node));
    const isDictionary = (type) =>
      type.isUnion()
        ? type.types.some(isDictionary)
        : type.getStringIndexType() !== undefined && (type.symbol ?? type.aliasSymbol)?.name !== ENVIRONMENT;
    return {
      "BinaryExpression[operator='in']"(node) {
        if (isAnyText(typeOf(node.left)) && isDictionary(typeOf(node.right)))
          context.report({ node, messageId: 'has' });
      },
      "CallExpression[callee.object.name='Object'][callee.property.name='assign']"(node) {
        const sources = node.arguments.slice(1).filter(({ type }) => type !== 'SpreadElement');
        if (sources.some((source) => isDictionary(typeOf(source)))) context.report({ node, messageId: 'assign' });
      },
      'ObjectPattern > Property[computed=true]'(node) {
        if (isAnyText(typeOf(node.key)) && isDictionary(typeOf(node.parent)))
          context.report({ node, messageId: 'read' });
      },
      'MemberExpression[computed=true]'(node) {
        if (!isAnyText(typeOf(node.property)) || !isDictionary(typeOf(node.object))) return;
        const { parent } = node;
        const writes = parent.type === 'AssignmentExpression' && parent.left === node;
        context.report({ node, messageId: writes ? 'write' : 'read' });
      },
    };
  },
};

/** True for the type of a text that may have any value. */
const isAnyText = (type) => (type.isUnion() ? type.types.some(isAnyText) : type.intrinsicName === 'string');
