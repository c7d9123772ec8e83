/**
 * ESLint rule for tests: nothing waits for a fixed time. A wait that is long enough on an idle machine is too short on
 * a busy one and a waste on all others. If a test is about time itself, a disabling comment says so.
 */

/** Names of timers; local names of imported promise timers are added to them. */
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

/** Other objects may have a method of the same name: pty.pause(). */
const isTimer = ({ type, name, object, property }, names) =>
  type === 'MemberExpression'
    ? property.name === 'setTimeout' && /^(globalThis|timers?)$/.test(object.name ?? '')
    : names.has(name);
