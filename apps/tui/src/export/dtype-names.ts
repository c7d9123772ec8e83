import { DTYPE_BYTES, type TensorDtype } from '@flashcore/shared/kernels';

/** Names of the dtype of Q, K, V and O in exported programs. */
export interface DtypeNames {
  /** Size of an element. */
  readonly bytes: number;
  /** PyTorch's name, as in torch.float16. */
  readonly torch: string;
  /** ATen's name, as in at::kHalf. */
  readonly aten: string;
  /** CUtensorMapDataType: the name after CU_TENSOR_MAP_DATA_TYPE_, and the number (cuda.h). */
  readonly tensorMap: string;
  readonly tensorMapNumber: number;
  /** The dtype's CUDA header, which must come before the kernel's macros; undefined if it needs none. */
  readonly header: string | undefined;
  /** Allowed absolute and relative difference to fp32 attention in a test on N(0, 1): four units of roundoff. */
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
  // Products may be computed in TF32, whose roundoff equals that of fp16.
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
