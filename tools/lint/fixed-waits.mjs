/**
 * ESLint rule for tests: no code waits for a fixed time. A wait that is long enough on an idle machine is too short on
 * a busy one, and a wait that is always long enough wastes time. If a test is about time itself, it disables the rule
 * with a comment that says so.
 */

/** Names of timers. The local names under which a file imports promise timers are added. */
const TIMERS = ['setTimeout', 'sleep', 'pause', 'delay'];
const PROMISES = /^(node:)?timers\/promises$/;

export const noFixedWait = {
  meta: {
    type: 'problem',
    schema: [],
    messages: {
      wait:
        'wait for a condition (waitFor() or until() of @flashcore/shared/testing, expect.poll, vi.waitFor, an event) or ' +
        'use a clock of the test; where time has to pass, disable this rule for the line and say why',
    },
  },
  create(context) {
    const names = new Set(TIMERS);
    return {
      ImportSpecifier(node) {
        if (PROMISES.test(node.parent.source.value) && node.imported.name === 'setTimeout') names.add(node.local.name);
      },
      CallExpression(node) {
        if (isTimer(node.callee, names)) context.report({ node, messageId: 'wait' });
      },
    };
  },
};

/** Other objects may have a method with the name of a timer, such as pty.pause(). */
const isTimer = ({ type, name, object, property }, names) =>
  type === 'MemberExpression'
    ? property.name === 'setTimeout' && /^(globalThis|timers?)$/.test(object.name ?? '')
    : names.has(name);
