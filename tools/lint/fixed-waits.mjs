/**
 * ESLint rule for tests: nothing waits for a fixed time, for what is long enough on a quiet machine is too short on a
 * busy one, and is waited for on every other. Where time itself is what a test is about, a disabling comment says so.
 */

/** Names that a timer goes by, and those that promises of one are given here. */
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

/** A method of anything else may be called so: pty.pause(). */
const isTimer = ({ type, name, object, property }, names) =>
  type === 'MemberExpression'
    ? property.name === 'setTimeout' && /^(globalThis|timers?)$/.test(object.name ?? '')
    : names.has(name);
