/** Whether code uses tensor cores, by its PTX or, without PTX, by its sources. */

const TENSOR_INSTRUCTION = /\b(?:mma\.(?:sync|sp)|wmma\.mma|wgmma\.mma_async|tcgen05\.mma)\b/;
// An instruction, WMMA, or a library of templates. "comma" and "execute" are not.
const LEADS_TO_TENSOR_CORES = /(?<![a-z])(?:w|wg)?mma|tcgen05|nvcuda|cutlass|\bcute\b/i;

/** Whether PTX has an instruction of tensor cores. */
export const hasTensorInstruction = (ptx: string): boolean => TENSOR_INSTRUCTION.test(ptx);

/** False if nothing in a source can lead to tensor cores. True says only that it may. */
export const mayUseTensorCores = (source: string): boolean => LEADS_TO_TENSOR_CORES.test(source);
