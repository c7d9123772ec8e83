// Measures the emulator's own speed: the CPU time of one core for a thread switch, a barrier, a matrix product and a
// launch.
#include <algorithm>
#include <ctime>

#include "../tests/driver.h"

namespace {

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double number_in_statistics(const char* name) {
  char text[512];
  flashcore_emulator_statistics(text, sizeof text);
  const char* found = strstr(text, name);
  return found ? atof(found + strlen(name) + 1) : 0;
}

struct Measured {
  double seconds;  // best of five runs
  double switches;
};

Measured measure(const Kernels& kernels, const char* entry, unsigned threads, int count, CUdeviceptr out) {
  Measured best{1e9, 0};
  for (int round = 0; round < 5; ++round) {
    const double switches = number_in_statistics("\"thread_switches\""), start = cpu_seconds();
    CHECK_OK(kernels.run(entry, {1}, {threads}, 0, out, count));
    best.seconds = std::min(best.seconds, cpu_seconds() - start);
    best.switches = number_in_statistics("\"thread_switches\"") - switches;
  }
  return best;
}

}  // namespace

int main() {
  const Kernels kernels("primitives");
  const Buffer<float> buffer(1024);
  const CUdeviceptr out = buffer.address();
  constexpr int COUNT = 50000;
  for (const unsigned threads : {32u, 128u, 1024u}) {
    const Measured m = measure(kernels, "sync_threads", threads, COUNT / 5, out);
    printf("__syncthreads, %4u threads   %8.1f ns   %6.1f M switches/s\n", threads, m.seconds / (COUNT / 5) * 1e9,
           m.switches / m.seconds * 1e-6);
  }
  for (const char* entry : {"sync_warp", "shuffle_xor", "wmma_load"}) {
    const Measured m = measure(kernels, entry, 32, COUNT, out);
    printf("%-28s %8.1f ns   %6.1f M switches/s\n", entry, m.seconds / COUNT * 1e9, m.switches / m.seconds * 1e-6);
  }
  const Measured wmma = measure(kernels, "wmma_product", 32, COUNT, out);
  printf("wmma m16n16k16               %8.1f ns   %6.2f GFLOP/s\n", wmma.seconds / COUNT * 1e9,
         8192.0 * COUNT / wmma.seconds * 1e-9);
  const Measured mma = measure(kernels, "mma_product", 32, COUNT, out);
  printf("mma.sync m16n8k16            %8.1f ns   %6.2f GFLOP/s\n", mma.seconds / COUNT * 1e9,
         4096.0 * COUNT / mma.seconds * 1e-9);
  for (const char* entry : {"scalar_fma", "half_fma"}) {
    const Measured m = measure(kernels, entry, 128, COUNT, out);
    printf("%-28s              %6.2f GFLOP/s\n", entry, 128 * 32.0 * COUNT / m.seconds * 1e-9);
  }
  // The runner always sets a limit, so launches are also measured with one.
  for (const uint64_t limit_ms : {0, 60'000}) {
    flashcore_emulator_time_limit(limit_ms);
    const double start = cpu_seconds();
    for (int i = 0; i < 2000; ++i) CHECK_OK(kernels.run("nothing", {1}, {128}, 0, out, 0));
    printf("launch and wait, 128 threads %8.1f ns%s\n", (cpu_seconds() - start) / 2000 * 1e9,
           limit_ms ? " under a time limit" : "");
  }
}
