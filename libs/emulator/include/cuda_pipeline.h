// The pipeline primitives of cuda_pipeline.h over cp.async.
#pragma once
#include "flashcore_emulator/memory.h"

inline void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, size_t zero_fill = 0) {
  flashcore_emu_cp_async(shared, global, static_cast<unsigned>(bytes), static_cast<unsigned>(bytes - zero_fill));
}
inline void __pipeline_commit() { flashcore_emu_cp_async_commit(); }
inline void __pipeline_wait_prior(size_t pending) { flashcore_emu_cp_async_wait(static_cast<int>(pending)); }
