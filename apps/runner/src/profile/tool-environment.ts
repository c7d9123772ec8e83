/** What the tools, the driver and Node need of the environment. */
export function toolEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR|LD_LIBRARY_PATH|CUDA_.*|NVIDIA_.*)$/.test(name)),
  );
}
