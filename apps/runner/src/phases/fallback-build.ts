import { variantServices, type JobServices } from './job-services.ts';

/** A build that nobody waits for. */
export interface BuildBeside {
  /** Ends it, where it still runs. */
  drop(): Promise<void>;
}

/**
 * Compiles a job's fallback while its variant is verified and timed, at the lowest priority: where it is needed, it is
 * in the cache. Undefined where there is none; on the emulator too, whose kernels want the processors themselves, and
 * where the build is for another host.
 */
export function compileFallback(services: JobServices): BuildBeside | undefined {
  const { spec, tools, job, compiling } = services;
  if (!spec.fallback || spec.device.simulated || compiling) return undefined;
  const dropped = new AbortController();
  const { build } = variantServices(services, spec.fallback);
  const over = tools.kernels.build(build, { signal: AbortSignal.any([job.signal, dropped.signal]), aside: true }).then(
    () => undefined,
    // The fallback's own build says what is wrong, if it comes to that.
    () => undefined,
  );
  return {
    drop: () => {
      dropped.abort(new Error('the fallback is not wanted'));
      return over;
    },
  };
}
