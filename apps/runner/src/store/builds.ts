import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { SourceTreeSchema, VariantSchema, type SourceTree, type Variant } from '@flashcore/shared/contract';
import type { Database } from './database.ts';

/** Sources and variant of a build. */
export interface KnownBuild {
  tree: SourceTree;
  variant: Variant;
}

/** Known builds by build_id, with the sources and the variant from which each can be made again. */
export class BuildStore {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  keep(buildId: string, { tree, variant }: KnownBuild): void {
    this.#database.transaction(() =>
      this.#database
        .prepare(
          'INSERT INTO builds (build_id, tree, variant, create_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET tree = excluded.tree, variant = excluded.variant',
        )
        .run(buildId, toBinary(SourceTreeSchema, tree), toBinary(VariantSchema, variant), Date.now()),
    );
  }

  find(buildId: string): KnownBuild | undefined {
    const row = this.#database.prepare('SELECT tree, variant FROM builds WHERE build_id = ?').get(buildId);
    return (
      row && {
        tree: fromBinary(SourceTreeSchema, row['tree'] as Uint8Array),
        variant: fromBinary(VariantSchema, row['variant'] as Uint8Array),
      }
    );
  }
}
