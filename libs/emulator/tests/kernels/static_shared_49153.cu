// entries: all_of_it
extern "C" __global__ void all_of_it(int* out) {
  __shared__ char tile[49153];
  tile[threadIdx.x * 100] = (char)threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[(blockDim.x - 1 - threadIdx.x) * 100];
}
