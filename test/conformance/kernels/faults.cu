// Errors that a device must refuse, one fault per entry.
extern "C" __global__ void write_far_out(int* out) { out[(1ll << 40) + threadIdx.x] = 1; }

extern "C" __global__ void read_misaligned(const char* bytes, int4* out) {
  out[threadIdx.x] = *reinterpret_cast<const int4*>(bytes + 4);
}

extern "C" __global__ void trap_now(int* out) {
  if (out != nullptr) __trap();
}
