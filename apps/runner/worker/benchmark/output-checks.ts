import { randomInt } from 'node:crypto';
import type { LatencyReport } from '../messages/measuring.ts';
import type { Reporter } from '../reporter.ts';
import type { Audit, AuditReport } from './audit.ts';
import type { InputRotation, InputSet } from './input-rotation.ts';

/** Samples whose outputs are checked; the first of them has new inputs altogether. */
const SECRET_CHECKS = 4;
/** Once the checks of a mode took so long, no further one is begun. */
const CHECKS_LIMIT_MS = 1_500;
const REFERENCE_LIMIT_MS = 600_000;
const AUDIT_LIMIT_MS = 120_000;

/**
 * Checks of a mode's outputs while and after it is timed, all outside of the timed region: at samples that nobody can
 * guess, at the end, and in untimed rows of launches.
 */
export class OutputChecks {
  readonly #rotation: InputRotation;
  readonly #reporter: Reporter;
  readonly #indices: Set<number>;
  readonly #problems: string[] = [];
  #audit: AuditReport | undefined;
  #checks = 0;
  #ms = 0;

  /** `reachable`: samples that there should be, by what the warm-up's took. */
  constructor(rotation: InputRotation, reporter: Reporter, reachable: number) {
    this.#rotation = rotation;
    this.#reporter = reporter;
    const half = Math.max(1, Math.floor(reachable / 2));
    this.#indices = new Set(Array.from({ length: Math.min(SECRET_CHECKS, half) }, () => randomInt(half)));
  }

  /** Whether the output of a sample is to be checked. */
  wants(index: number): boolean {
    return this.#indices.has(index) && this.#problems.length === 0 && this.#ms < CHECKS_LIMIT_MS;
  }

  /** Whether a secret sample has come; a host that got busy after the warm-up may run out of time before. */
  get reached(): boolean {
    return this.#checks > 0;
  }

  /** Has that sample checked too. */
  demand(index: number): void {
    this.#indices.add(index);
  }

  /** Before a sample that is to be checked. */
  prepare(): void {
    if (this.#checks === 0) this.#rotation.refresh();
  }

  /** Milliseconds that it took, which are not sampling time. */
  async secret(set: InputSet): Promise<number> {
    const started = performance.now();
    this.#checks += 1;
    await this.#check('checking an output during timing', 'at a secret sample', set);
    const ms = performance.now() - started;
    this.#ms += ms;
    return ms;
  }

  async last(set: InputSet): Promise<void> {
    await this.#check('checking the output after timing', 'after timing', set);
  }

  /** A ratio above the limit is measured again, and the least one counts. */
  async audit(audit: Audit, options: { repeatAbove: number }): Promise<void> {
    await this.#reporter.step('looking for work that timed launches leave out', AUDIT_LIMIT_MS);
    this.#audit = audit.run(options);
    audit.close();
    if (this.#audit.problem !== undefined)
      this.#problems.push(`in a row of launches whose inputs changed under way: ${this.#audit.problem}`);
  }

  report(): Pick<LatencyReport, 'outputCheck' | 'freshRatio'> {
    const problems =
      this.#checks === 0 && this.#problems.length === 0 ? ['no secret sample was reached'] : this.#problems;
    const freshRatio = this.#audit?.freshRatio;
    if (problems.length > 0)
      return {
        outputCheck: { passed: false, detail: problems.join('; ') },
        ...(freshRatio !== undefined && { freshRatio }),
      };
    const secret = `right at ${this.#checks} secret ${this.#checks === 1 ? 'sample' : 'samples'} with fresh inputs, after timing`;
    if (freshRatio === undefined) return { outputCheck: { passed: true, detail: secret } };
    return {
      outputCheck: {
        passed: true,
        detail: `${secret}, and in rows of launches whose inputs changed under way (${freshRatio.toFixed(3)} of the time without)`,
      },
      freshRatio,
    };
  }

  async #check(step: string, when: string, set: InputSet): Promise<void> {
    await this.#reporter.step(step, REFERENCE_LIMIT_MS);
    const problem = this.#rotation.check(set);
    if (problem !== undefined) this.#problems.push(`${when}: ${problem}`);
  }
}
