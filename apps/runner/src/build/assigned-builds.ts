import { keyOf, type OtherBuild, type OtherBuilds } from './compile-cache.ts';
import { isIntact, type CompiledFiles } from './compile-record.ts';
import type { CompileUnit } from './compile-unit.ts';
import { nvccOfVersion, type Nvcc } from './compilers.ts';

/** A compilation that another host did. */
export interface AssignedBuild {
  compiler: string;
  version: string;
  record: OtherBuild;
}

/** Another host's compilations for the current job; their files are among this host's artifacts. */
export class AssignedBuilds implements OtherBuilds {
  readonly #artifacts: CompiledFiles;
  #builds = new Map<string, AssignedBuild>();

  constructor(artifacts: CompiledFiles) {
    this.#artifacts = artifacts;
  }

  /** Replaces the compilations with those for the next job. */
  replace(builds: readonly AssignedBuild[]): void {
    this.#builds = new Map(builds.map((build) => [build.record.key, build]));
  }

  get isEmpty(): boolean {
    return this.#builds.size === 0;
  }

  /**
   * The nvcc that another host compiled this unit with; it need not be installed here. undefined if the unit was not
   * compiled with nvcc.
   */
  nvccOf(made: (nvcc: Nvcc) => CompileUnit): Nvcc | undefined {
    const versions = [...this.#builds.values()].filter(({ compiler }) => compiler === 'nvcc');
    return [...new Set(versions.map(({ version }) => version))]
      .map(nvccOfVersion)
      .find((nvcc) => this.#builds.has(keyOf(made(nvcc))));
  }

  copyTo(own: CompiledFiles, key: string): OtherBuild | undefined {
    const record = this.#builds.get(key)?.record;
    if (!record?.outputs.every(({ sha256 }) => isIntact(this.#artifacts, sha256))) return undefined;
    for (const { sha256 } of record.outputs) own.putFile(this.#artifacts.path(sha256));
    return record;
  }

  /** Does nothing, because this host's compilations are not kept for others. */
  keep(): void {}
}
