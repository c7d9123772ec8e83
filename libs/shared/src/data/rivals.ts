/**
 * The rivals that are timed along with kernels: the rows of the table in tools/rivals.py, and their names in results.
 */

export const SDPA_BACKENDS: readonly string[] = ['flash', 'cudnn', 'efficient', 'math'];

/** Other projects' kernels, then the backends of PyTorch's SDPA. */
export const RIVALS: readonly string[] = ['flash_attention_3', 'flashinfer', 'flex', 'mosaic', ...SDPA_BACKENDS];

const SDPA = 'sdpa/';

/** The name in results, for example "sdpa/flash" or "flash_attention_3". */
export const rivalName = (rival: string): string => (SDPA_BACKENDS.includes(rival) ? `${SDPA}${rival}` : rival);

/** Whether a name in results is that of a backend of SDPA. */
export const isSdpa = ({ name }: { readonly name: string }): boolean => name === 'sdpa' || name.startsWith(SDPA);
