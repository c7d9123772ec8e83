import { variantServices, type JobServices } from './job-services.ts';

/** A build in the background. */
export interface BuildBeside {
  /** Stops the build if it is still running. */
  drop(): Promise<void>;
}

/**
 * Compiles a job's fallback at the lowest priority while its variant is verified and timed; if the fallback is needed,
 * it is in the cache. Undefined if there is none, on the emulator, whose kernels need the CPUs, and if the build is for
 * another host.
 */
export function compileFallback(services: JobServices): BuildBeside | undefined {
  const { spec, tools, job, compiling } = services;
  if (!spec.fallback || spec.device.simulated || compiling) return undefined;
  const dropped = new AbortController();
  const { build } = variantServices(services, spec.fallback);
  const over = tools.kernels.build(build, { signal: AbortSignal.any([job.signal, dropped.signal]), aside: true }).then(
    () => undefined,
    // If the fallback is needed, its own build reports the error.
    () => undefined,
  );
  return {
    drop: () => {
      dropped.abort(new Error('the fallback is not wanted'));
      return over;
    },
  };
}
