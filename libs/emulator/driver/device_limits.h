// Limits of an L4 (compute capability 8.9; CUDA C++ Programming Guide, "Technical Specifications per Compute
// Capability").
#pragma once

namespace flashcore::emu::limits {
constexpr int MAX_DEVICES = 8;
constexpr int MULTIPROCESSORS = 58;
constexpr int MAX_THREADS_PER_BLOCK = 1024;
constexpr int THREADS_PER_MULTIPROCESSOR = 1536;
constexpr int BLOCKS_PER_MULTIPROCESSOR = 24;
constexpr int SHARED_PER_BLOCK = 48 * 1024;
constexpr int SHARED_PER_BLOCK_OPTIN = 99 * 1024;
constexpr int HOPPER_SHARED_PER_BLOCK_OPTIN = 227 * 1024;  // compute capability 9.0
constexpr int SHARED_PER_MULTIPROCESSOR = 100 * 1024;
constexpr int SHARED_RESERVED_PER_BLOCK = 1024;
constexpr int L2_BYTES = 48 * 1024 * 1024;
}  // namespace flashcore::emu::limits
