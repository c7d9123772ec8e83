/** The part of the environment that tools, the driver and Node need. */
export function toolEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*)$/.test(name)),
  );
}
