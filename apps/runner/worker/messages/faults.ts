/** What the emulator says about a fault (flashcore_emulator_last_fault). */
export interface EmulatorFault {
  kind: string;
  message: string;
  entry?: string;
  block?: number[];
  thread?: number[];
  /** The warp of `thread`, and the lanes of it that did the same, as bits. */
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

/** A CUDA call that failed. The worker exits after it: the context can't be trusted any more. */
export interface CudaFault {
  call: string;
  arguments: string;
  /** CUDA's name, for example "CUDA_ERROR_ILLEGAL_ADDRESS". */
  name: string;
  description: string;
  emulator?: EmulatorFault;
  /** Buffer that the faulting address lies in or beyond, for example "16 bytes past the end of O". */
  buffer?: string;
  /** Seed that ran. */
  seed?: string;
}
