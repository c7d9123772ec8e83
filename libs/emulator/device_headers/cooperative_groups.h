// Cooperative groups of one CTA and of a cluster: blocks, tiles of a warp (with the size in the type or known only at
// run time) and coalesced lanes. Also the grid of a cooperative launch. Tiles of several warps are not supported.
#pragma once
#include <cuda_runtime.h>
#include <type_traits>

namespace cooperative_groups {

namespace detail {

FLASHCORE_DEVICE unsigned lane() {
  unsigned id;
  asm("mov.u32 %0, %%laneid;" : "=r"(id));
  return id;
}
FLASHCORE_DEVICE unsigned lanes_below() {
  unsigned mask;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(mask));
  return mask;
}
FLASHCORE_DEVICE unsigned thread_in_block() {
  return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
}

/** Shuffles a value with its type's own shuffle if there is one, else word by word. */
template <class T, class Shuffle>
FLASHCORE_DEVICE auto shuffled(T value, Shuffle shuffle, int) -> decltype(shuffle(value)) {
  return shuffle(value);
}
template <class T, class Shuffle>
FLASHCORE_DEVICE T shuffled(T value, Shuffle shuffle, long) {
  static_assert(sizeof(T) % sizeof(unsigned) == 0 && sizeof(T) <= 32, "groups exchange words, at most eight");
  unsigned words[sizeof(T) / sizeof(unsigned)];
  __builtin_memcpy(words, &value, sizeof(T));
#pragma unroll
  for (unsigned& word : words) word = shuffle(word);
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}
#define FLASHCORE_SHUFFLED(NAME, MASK, WHERE, WIDTH) \
  detail::shuffled(                                  \
      value, [=](auto each) -> decltype(NAME(0u, each, 0, 32)) { return NAME(MASK, each, WHERE, WIDTH); }, 0)

/** A set of lanes of a warp. Ranks follow the lane numbers. */
class Lanes {
 public:
  FLASHCORE_DEVICE_MEMBER explicit Lanes(unsigned mask) : mask_(mask) {}
  FLASHCORE_DEVICE_MEMBER void sync() const { __syncwarp(mask_); }
  FLASHCORE_DEVICE_MEMBER unsigned size() const { return __popc(mask_); }
  FLASHCORE_DEVICE_MEMBER unsigned num_threads() const { return size(); }
  FLASHCORE_DEVICE_MEMBER unsigned thread_rank() const { return __popc(mask_ & lanes_below()); }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl(T value, int rank) const {
    return FLASHCORE_SHUFFLED(__shfl_sync, mask_, lane_of(rank), 32);
  }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl_up(T value, int distance) const {
    return shfl(value, int(thread_rank()) >= distance ? thread_rank() - distance : thread_rank());
  }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl_down(T value, int distance) const {
    return shfl(value, thread_rank() + distance < size() ? thread_rank() + distance : thread_rank());
  }
  FLASHCORE_DEVICE_MEMBER int any(int predicate) const { return __any_sync(mask_, predicate); }
  FLASHCORE_DEVICE_MEMBER int all(int predicate) const { return __all_sync(mask_, predicate); }
  /** Returns a mask whose bit i is the predicate of the member with rank i. */
  FLASHCORE_DEVICE_MEMBER unsigned ballot(int predicate) const {
    const unsigned votes = __ballot_sync(mask_, predicate);
    unsigned packed = 0;
    for (unsigned rank = 0; rank < size(); ++rank) packed |= (votes >> lane_of(rank) & 1u) << rank;
    return packed;
  }
  FLASHCORE_DEVICE_MEMBER unsigned mask() const { return mask_; }

 protected:
  /** The lane with this rank, which is the position of the mask's n-th set bit. */
  FLASHCORE_DEVICE_MEMBER int lane_of(unsigned rank) const {
    unsigned left = mask_;
    for (unsigned i = 0; i < rank; ++i) left &= left - 1;
    return __ffs(static_cast<int>(left)) - 1;
  }
  unsigned mask_;
};

}  // namespace detail

class thread_block {
 public:
  FLASHCORE_DEVICE_MEMBER static void sync() { __syncthreads(); }
  FLASHCORE_DEVICE_MEMBER static unsigned thread_rank() { return detail::thread_in_block(); }
  FLASHCORE_DEVICE_MEMBER static unsigned size() { return blockDim.x * blockDim.y * blockDim.z; }
  FLASHCORE_DEVICE_MEMBER static unsigned num_threads() { return size(); }
  FLASHCORE_DEVICE_MEMBER static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
  FLASHCORE_DEVICE_MEMBER static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
  FLASHCORE_DEVICE_MEMBER static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
  FLASHCORE_DEVICE_MEMBER static dim3 dim_threads() { return group_dim(); }
};
FLASHCORE_DEVICE thread_block this_thread_block() { return {}; }

/**
 * All blocks of the grid. In a cooperative launch they synchronize through a word in the driver's workspace, as in
 * CUDA's header.
 */
class grid_group {
 public:
  FLASHCORE_DEVICE_MEMBER static bool is_valid() { return barrier() != nullptr; }
  FLASHCORE_DEVICE_MEMBER static void sync() {
    if (!is_valid()) __trap();
    __syncthreads();
    if (detail::thread_in_block() == 0) {
      // The first block adds enough to flip the sum's highest bit, so that bit changes with each sync().
      const unsigned step = block_rank() == 0 ? 0x80000000u - unsigned(num_blocks() - 1) : 1u;
      __threadfence();
      const unsigned before = atomicAdd(barrier(), step);
      while (((before ^ *static_cast<volatile unsigned*>(barrier())) & 0x80000000u) == 0) {}
      __threadfence();
    }
    __syncthreads();
  }
  FLASHCORE_DEVICE_MEMBER static dim3 group_dim() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
  FLASHCORE_DEVICE_MEMBER static dim3 dim_blocks() { return group_dim(); }
  FLASHCORE_DEVICE_MEMBER static unsigned long long num_blocks() { return 1ull * gridDim.x * gridDim.y * gridDim.z; }
  FLASHCORE_DEVICE_MEMBER static unsigned long long size() { return num_blocks() * thread_block::size(); }
  FLASHCORE_DEVICE_MEMBER static unsigned long long num_threads() { return size(); }
  FLASHCORE_DEVICE_MEMBER static unsigned long long block_rank() {
    return (1ull * blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  }
  FLASHCORE_DEVICE_MEMBER static unsigned long long thread_rank() {
    return block_rank() * thread_block::size() + thread_block::thread_rank();
  }

 private:
  /** The word that follows the workspace's size; null unless the launch is cooperative. */
  FLASHCORE_DEVICE_MEMBER static unsigned* barrier() {
    unsigned high, low;
    asm("mov.u32 %0, %%envreg1;" : "=r"(high));
    asm("mov.u32 %0, %%envreg2;" : "=r"(low));
    const unsigned long long workspace = (unsigned long long)high << 32 | low;
    return workspace ? reinterpret_cast<unsigned*>(workspace) + 1 : nullptr;
  }
};
FLASHCORE_DEVICE grid_group this_grid() { return {}; }

/** A tile of SIZE neighboring lanes: 1, 2, 4 … 32. */
template <unsigned SIZE, class Parent = thread_block>
class thread_block_tile {
  static_assert(SIZE >= 1 && SIZE <= 32 && (SIZE & (SIZE - 1)) == 0, "a tile has 1, 2, 4, 8, 16 or 32 threads here");

 public:
  FLASHCORE_DEVICE_MEMBER static void sync() { __syncwarp(mask()); }
  FLASHCORE_DEVICE_MEMBER static constexpr unsigned size() { return SIZE; }
  FLASHCORE_DEVICE_MEMBER static constexpr unsigned num_threads() { return SIZE; }
  FLASHCORE_DEVICE_MEMBER static unsigned thread_rank() { return detail::lane() % SIZE; }
  FLASHCORE_DEVICE_MEMBER static unsigned meta_group_rank() { return detail::thread_in_block() / SIZE; }
  FLASHCORE_DEVICE_MEMBER static unsigned meta_group_size() { return (thread_block::size() + SIZE - 1) / SIZE; }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl(T value, int rank) const {
    return FLASHCORE_SHUFFLED(__shfl_sync, mask(), rank, SIZE);
  }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl_up(T value, int distance) const {
    return FLASHCORE_SHUFFLED(__shfl_up_sync, mask(), distance, SIZE);
  }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl_down(T value, int distance) const {
    return FLASHCORE_SHUFFLED(__shfl_down_sync, mask(), distance, SIZE);
  }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T shfl_xor(T value, int lanes) const {
    return FLASHCORE_SHUFFLED(__shfl_xor_sync, mask(), lanes, SIZE);
  }
  FLASHCORE_DEVICE_MEMBER int any(int predicate) const { return __any_sync(mask(), predicate); }
  FLASHCORE_DEVICE_MEMBER int all(int predicate) const { return __all_sync(mask(), predicate); }
  FLASHCORE_DEVICE_MEMBER unsigned ballot(int predicate) const {
    return __ballot_sync(mask(), predicate) >> first_lane() & (SIZE == 32 ? ~0u : (1u << SIZE % 32) - 1);
  }
  FLASHCORE_DEVICE_MEMBER static unsigned mask() { return SIZE == 32 ? ~0u : ((1u << SIZE % 32) - 1) << first_lane(); }

 private:
  FLASHCORE_DEVICE_MEMBER static unsigned first_lane() { return detail::lane() / SIZE * SIZE; }
};

template <unsigned SIZE, class Parent>
FLASHCORE_DEVICE thread_block_tile<SIZE, Parent> tiled_partition(const Parent&) {
  return {};
}

/** The lanes that execute this statement together, or a tile whose size is known at run time. */
class coalesced_group : public detail::Lanes {
 public:
  using Lanes::Lanes;
};
FLASHCORE_DEVICE coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }
using thread_group = coalesced_group;

/** A tile of 1, 2, 4 … 32 neighboring lanes. */
FLASHCORE_DEVICE thread_group tiled_partition(const thread_block&, unsigned size) {
  const unsigned first = detail::lane() / size * size;
  return thread_group((size == 32 ? ~0u : (1u << size) - 1) << first);
}

template <class Group>
FLASHCORE_DEVICE void sync(const Group& group) {
  group.sync();
}

#if __CUDA_ARCH__ >= 900
class cluster_group {
 public:
  FLASHCORE_DEVICE_MEMBER static void barrier_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
  FLASHCORE_DEVICE_MEMBER static void barrier_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
  FLASHCORE_DEVICE_MEMBER static void sync() {
    barrier_arrive();
    barrier_wait();
  }
  FLASHCORE_DEVICE_MEMBER static unsigned block_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
  }
  FLASHCORE_DEVICE_MEMBER static unsigned num_blocks() {
    unsigned count;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
    return count;
  }
  template <class T>
  FLASHCORE_DEVICE_MEMBER T* map_shared_rank(T* address, int rank) const {
    unsigned long long mapped;
    asm("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(address), "r"(rank));
    return reinterpret_cast<T*>(mapped);
  }
};
FLASHCORE_DEVICE cluster_group this_cluster() { return {}; }
#endif

}  // namespace cooperative_groups
