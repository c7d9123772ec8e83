import { createHmac, randomBytes } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlashcoreError, type Shape } from '@flashcore/shared/contract';
import { formatShape, type Cases } from '@flashcore/shared/kernels';
import type { Emulation } from '../build/emulation.ts';
import type { GatesText } from '../spec/judged-by.ts';

/** Everything that decides a judgement, apart from the runner's code and its devices. */
export interface JudgedWith {
  readonly cases: Pick<Cases, 'digest'>;
  readonly gates: Pick<GatesText, 'text'>;
  /** undefined if no emulator is served. */
  readonly emulation: (() => Pick<Emulation, 'engine' | 'frontEnd'>) | undefined;
  readonly heldOut: readonly Shape[];
}

const SECRET_BYTES = 32;

/**
 * A digest that changes when a client's earlier judgements become invalid. It is keyed, because there are few possible
 * held-out shapes: with a plain digest, a client could try them all.
 */
export class JudgingDigest {
  readonly #file: string;
  #secret: Buffer | undefined;

  constructor(dataDirectory: string) {
    this.#file = join(dataDirectory, 'judging.key');
  }

  /**
   * The digest. While the emulator's engine is unknown, each call returns a different digest, so that no judgement is
   * reused.
   */
  of({ cases, gates, emulation, heldOut }: JudgedWith): string {
    const engine = engineName(emulation);
    if (engine === undefined) return randomBytes(SECRET_BYTES).toString('hex');
    this.#secret ??= this.#keptSecret();
    return createHmac('sha256', this.#secret)
      .update(JSON.stringify([cases.digest, gates.text, engine, heldOut.map(formatShape)]))
      .digest('hex');
  }

  /**
   * The stored secret. If it can't be stored (full disk), makes one that is used until the runner ends, so that no
   * judgement outlives the runner.
   */
  #keptSecret(): Buffer {
    try {
      if (!existsSync(this.#file)) writeFileSync(this.#file, randomBytes(SECRET_BYTES), { mode: 0o600, flag: 'wx' });
      const secret = readFileSync(this.#file);
      if (secret.length === SECRET_BYTES) return secret;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === undefined) throw error;
    }
    return randomBytes(SECRET_BYTES);
  }
}

/**
 * The engine and its front end; undefined while they are unknown. The front end matters because clang's counters differ
 * from nvcc's.
 */
function engineName(emulation: JudgedWith['emulation']): string | undefined {
  if (!emulation) return '';
  try {
    const { engine, frontEnd } = emulation();
    return [engine, frontEnd ?? ''].join(' ');
  } catch (error) {
    if (error instanceof FlashcoreError) return undefined;
    throw error;
  }
}
