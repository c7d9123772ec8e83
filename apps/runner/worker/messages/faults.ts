/** A fault as the emulator describes it (flashcore_emulator_last_fault). */
export interface EmulatorFault {
  kind: string;
  message: string;
  entry?: string;
  block?: number[];
  thread?: number[];
  /** The warp of `thread`, and a bit mask of its lanes that did the same. */
  warp?: number;
  lanes?: number;
  /** "flashcore_v6.cu:31". */
  place?: string;
  address?: string;
  access?: string;
  bytes?: number;
  buffer?: string;
  threads?: { thread: number[]; waits_at: string }[];
  threads_total?: number;
}

/** A failed CUDA call. The worker exits after it, because the context can no longer be trusted. */
export interface CudaFault {
  call: string;
  arguments: string;
  /** CUDA's name, for example "CUDA_ERROR_ILLEGAL_ADDRESS". */
  name: string;
  description: string;
  emulator?: EmulatorFault;
  /** The buffer at or near the faulting address, for example "16 bytes past the end of O". */
  buffer?: string;
  /** Seed of the run. */
  seed?: string;
}
