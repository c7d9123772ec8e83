import { createHash } from 'node:crypto';
import { fromBinary, toBinary, type DescMessage, type MessageShape } from '@bufbuild/protobuf';
import type { Database } from '../store/database.ts';

/**
 * Earlier measurements, keyed by everything they depend on, so that a search that was killed or is repeated measures
 * nothing twice.
 */
export class MeasuredSteps {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** The result under a key; undefined if there is none. */
  find<Desc extends DescMessage>(schema: Desc, key: StepKey): MessageShape<Desc> | undefined {
    const row = this.#database.prepare('SELECT result FROM measured_steps WHERE key = ?').get(digestOf(schema, key));
    return row && fromBinary(schema, row['result'] as Uint8Array);
  }

  /** Stores a result, replacing an earlier one. Errors: DISK_FULL. */
  keep<Desc extends DescMessage>(schema: Desc, key: StepKey, result: MessageShape<Desc>): void {
    this.#database
      .prepare('INSERT OR REPLACE INTO measured_steps (key, result, create_ms) VALUES (?, ?, ?)')
      .run(digestOf(schema, key), toBinary(schema, result), Date.now());
  }
}

/** Builds, shapes, samples, cases.yaml, device and driver, emulator engine, protocol: measurements depend on these. */
export type StepKey = readonly (string | number | undefined)[];

const digestOf = (schema: DescMessage, key: StepKey): string =>
  createHash('sha256')
    .update(JSON.stringify([schema.typeName, ...key]))
    .digest('hex');
