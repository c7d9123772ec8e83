import type { Device, JobEvent, KernelVariant } from '@flashcore/shared/contract';
import { resolveVariant, type ResolvedVariant } from '@flashcore/shared/kernels';
import type { KernelCatalog, ResolvedKernel } from '../kernels.ts';
import { variantMessage } from '../spec/job-spec.ts';
import { fallbackOf } from '../spec/plan-spec.ts';

/** The kernel and the variants that a job may build. */
interface Wanted {
  kernel: ResolvedKernel;
  /** The requested variant, and the one without tensor cores if there is one. */
  variants: ResolvedVariant[];
}

/** Records in the gateway's store which sources a node built, so that clients can name the build and accept it. */
export class BuiltVariants {
  readonly #asked: KernelVariant;
  readonly #kernels: KernelCatalog;
  readonly #device: Device;
  #wanted: Wanted | undefined;
  /**
   * Label of the variant that the events are about; undefined if the variant's phase began under an earlier gateway.
   */
  #label: string | undefined;

  constructor(asked: KernelVariant, { kernels, device }: { kernels: KernelCatalog; device: Device }) {
    this.#asked = asked;
    this.#kernels = kernels;
    this.#device = device;
  }

  /** Records the build of an event, if it has one. Errors: as KernelCatalog.keepBuild(). */
  note({ payload }: JobEvent): void {
    if (payload.case === 'phaseStarted') this.#label = payload.value.variant;
    if (payload.case !== 'buildResult' || !payload.value.succeeded) return;
    const { kernel, variants } = (this.#wanted ??= this.#resolve());
    const built = variants.find(({ label }) => label === (this.#label ?? variants[0]!.label));
    if (built) this.#kernels.keepBuild(payload.value.buildId, kernel, variantMessage(built));
  }

  #resolve(): Wanted {
    const kernel = this.#kernels.resolve(this.#asked.kernel!);
    const { variant } = this.#asked;
    const resolved = resolveVariant(kernel.manifest, variant, this.#device);
    const fallback = fallbackOf(kernel.manifest, variant, { resolved, device: this.#device });
    return { kernel, variants: fallback ? [resolved, fallback] : [resolved] };
  }
}
