/**
 * ESLint rule: no text is a key of an object, whose prototype has keys of its own: { }['toString'] is a function, and a
 * value for '__proto__' is lost. entryOf() of @flashcore/shared/text reads an object that came as one; a Map, or
 * Object.fromEntries(), is where keys are written.
 */
import { ESLintUtils } from '@typescript-eslint/utils';

/** Of Node: its objects have no key but those of the environment. */
const ENVIRONMENT = 'ProcessEnv';

export const noPlainDictionary = {
  meta: {
    type: 'problem',
    schema: [],
    messages: {
      read: 'read it with entryOf(object, key) of @flashcore/shared/text: an object has keys of its prototype too',
      write: 'collect keys in a Map, and make an object of it with Object.fromEntries(): "__proto__" is a key too',
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
      'MemberExpression[computed=true]'(node) {
        if (!isAnyText(typeOf(node.property)) || !isDictionary(typeOf(node.object))) return;
        const { parent } = node;
        const writes = parent.type === 'AssignmentExpression' && parent.left === node;
        context.report({ node, messageId: writes ? 'write' : 'read' });
      },
    };
  },
};

/** Not one of a few known texts. */
const isAnyText = (type) => (type.isUnion() ? type.types.some(isAnyText) : type.intrinsicName === 'string');
