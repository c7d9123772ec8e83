import { errorText } from '@flashcore/shared/text';
import { SdpaError } from './sdpa-process.ts';

const HOW_TO_GET = 'install it with `python3 -m pip install torch`, or name a Python that has it in FLASHCORE_PYTHON';

/** Why there is no figure of SDPA, and what to do. */
export function missingText(error: unknown): string {
  const message = errorText(error);
  const reason = error instanceof SdpaError ? error.reason : '';
  if (reason === 'NO_TORCH' || reason === 'NO_PYTHON') return `no PyTorch on this host (${message}); ${HOW_TO_GET}`;
  if (reason === 'NO_CUDA') return `${message}; install a PyTorch built for CUDA`;
  return message;
}
