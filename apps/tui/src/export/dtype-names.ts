import { DTYPE_BYTES, type TensorDtype } from '@flashcore/shared/kernels';

/** What exported programs call the dtype of Q, K, V and O. */
export interface DtypeNames {
  /** Of an element. */
  readonly bytes: number;
  /** PyTorch's: torch.float16. */
  readonly torch: string;
  /** ATen's: at::kHalf. */
  readonly aten: string;
  /** CUtensorMapDataType: its name after CU_TENSOR_MAP_DATA_TYPE_, and its number (cuda.h). */
  readonly tensorMap: string;
  readonly tensorMapNumber: number;
  /** CUDA's header of it, which must come before the kernel's macros; undefined: it needs none. */
  readonly header: string | undefined;
  /** Absolute and relative difference to fp32 attention that a test of N(0, 1) allows: four units of roundoff. */
  readonly closeness: string;
}

const NAMES: Readonly<Record<TensorDtype, Omit<DtypeNames, 'bytes'>>> = {
  fp16: {
    torch: 'float16',
    aten: 'kHalf',
    tensorMap: 'FLOAT16',
    tensorMapNumber: 6,
    header: 'cuda_fp16.h',
    closeness: '2e-3',
  },
  bf16: {
    torch: 'bfloat16',
    aten: 'kBFloat16',
    tensorMap: 'BFLOAT16',
    tensorMapNumber: 9,
    header: 'cuda_bf16.h',
    closeness: '1.6e-2',
  },
  // Its products may be TF32's, whose roundoff is fp16's.
  fp32: {
    torch: 'float32',
    aten: 'kFloat',
    tensorMap: 'FLOAT32',
    tensorMapNumber: 7,
    header: undefined,
    closeness: '2e-3',
  },
};

export const dtypeNames = (dtype: TensorDtype): DtypeNames => ({ bytes: DTYPE_BYTES[dtype], ...NAMES[dtype] });
