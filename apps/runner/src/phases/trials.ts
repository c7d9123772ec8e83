/** Chooses the inputs of trials: timed launches that are checked on values other than N(0, 1). */
import { randomInt } from 'node:crypto';
import type { Shape } from '@flashcore/shared/contract';
import { planLaunches, type Distribution, type InputKind } from '@flashcore/shared/kernels';
import type { InputRule } from '../../worker/messages/launchable.ts';
import type { Trial } from '../../worker/messages/measuring.ts';
import { isMadeOfHeads } from '../../worker/messages/pool-size.ts';
import { affordedTrialSets, affordedTrials, affordsNormalInput } from '../spec/drawn-shapes.ts';
import { normalRules, probeRules, repeatedCase } from './coming-verification.ts';
import type { VariantServices } from './job-services.ts';

/** Distributions in one trial: at least as many as a small launch has drawn heads. */
const RULES_OF_A_TRIAL = 4;
/**
 * Largest scale of K for heads that are combined with any head of Q. Beyond it, logits of 1,000 and more round in fp32.
 */
const MOST_KEY_SCALE = 16;

/**
 * The trials of a shape, as many as the run affords. Together they have the probes' distributions, in random order.
 * Empty if the run's result can't be accepted.
 */
export function trialsOn(services: VariantServices, shape: Shape): Trial[] {
  const { spec, cases, resolved } = services;
  const { kernel, device, verify } = spec;
  if (!verify?.drawn) return [];
  const { manifest } = kernel;
  const rules = shuffled(probeRules(services));
  const timed = planLaunches(manifest, resolved, shape);
  if (!isMadeOfHeads(timed)) {
    const repeats = repeatedCase(services, timed, shape);
    // A launch has a single set, and a graph may have a single launch.
    const trials = rules
      .slice(0, affordedTrialSets(manifest.problem, device, shape))
      .map((rule) => ({ rules: [rule], repeats }));
    // Normal numbers are drawn fast enough for large shapes, too. Scaled, they make the largest logits.
    const [largest] = affordsNormalInput(manifest.problem, device, shape) ? normalRules(cases.distributions) : [];
    return largest && largest.logitScale > 1 ? [...trials, { rules: [largest] }] : trials;
  }
  const mixed = rules.filter(meetsAny).map(timedRule);
  const trials = [
    ...Array.from({ length: Math.ceil(mixed.length / RULES_OF_A_TRIAL) }, (_, trial) =>
      mixed.slice(trial * RULES_OF_A_TRIAL, (trial + 1) * RULES_OF_A_TRIAL),
    ),
    ...rules.filter((rule) => !meetsAny(rule)).map((rule) => [timedRule(rule)]),
  ];
  return shuffled(trials)
    .slice(0, affordedTrials(manifest.problem, device, shape))
    .map((each) => ({ rules: each }));
}

/** Combined with heads of other distributions, rows of these kinds give logits of 1,000 and more. */
const LARGE: readonly InputKind[] = ['largest', 'far_steps', 'rows_apart', 'lone_channel', 'cancelling'];

/** Whether heads of this distribution may be combined with heads of the others. */
const meetsAny = ({ q, k, keyScale = 1 }: Distribution): boolean =>
  ![q, k].some((kind) => LARGE.includes(kind)) && (keyScale <= MOST_KEY_SCALE || k.startsWith('channels_'));

/**
 * Adapts a distribution to timed heads, whose V is doubled and which are combined with heads of other distributions.
 * Channels of Q and K scaled by powers of two cancel only within one head, and the largest numbers can't be doubled.
 */
const timedRule = (rule: Distribution): InputRule => ({
  ...rule,
  ...(rule.k.startsWith('channels_') && { q: 'normal', k: 'normal' }),
  ...(['every_exponent', 'upper_half', 'lone_upper_half'].includes(rule.v) && { valueScale: rule.valueScale / 2 }),
});

/** The values in an unpredictable order. */
export function shuffled<Value>(values: readonly Value[]): Value[] {
  const left = [...values];
  return values.map(() => left.splice(randomInt(left.length), 1)[0]!);
}
