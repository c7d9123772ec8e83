// Runs one attention kernel over the seven parity cases and prints the emulator's speed; checks a few rows in double.
// attention <module.so> <entry> <rows a block> <threads> <shared bytes> [case number]
#include <algorithm>
#include <ctime>

#include "../tests/driver.h"
#include "../include/flashcore_emulator/half_bits.h"

namespace {

struct Case {
  int B, S, H;
  bool causal;
};
constexpr Case PARITY[] = {{1, 512, 8, false}, {2, 512, 8, false},  {1, 512, 8, true}, {2, 512, 8, true},
                           {1, 128, 4, false}, {1, 256, 16, false}, {4, 512, 8, false}};
constexpr int D = 64;
constexpr float SCALE = 0.125f;

/** CPU time of the process: a busy machine matters less. */
double seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::vector<uint16_t> random_halves(size_t count, uint32_t seed) {
  std::vector<uint16_t> values(count);
  for (uint16_t& value : values) {
    float sum = 0;  // of uniform numbers: close enough to N(0, 1)
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(next_random(seed) >> 8) * 0x1p-24f;
    value = flashcore::emu::float_to_half(sum - 6.0f);
  }
  return values;
}

double at(const std::vector<uint16_t>& values, size_t index) { return flashcore::emu::half_to_float(values[index]); }

/** Row blocks in x and heads in y, or with GRID=heads-first the other way round. */
Size grid_of(const Case& c, unsigned rows) {
  const unsigned row_blocks = (c.S + rows - 1) / rows, heads = unsigned(c.B * c.H);
  const char* order = getenv("GRID");
  return order && std::string(order) == "heads-first" ? Size{heads, row_blocks} : Size{row_blocks, heads};
}

/** Largest error of some rows of one head against the obvious computation in double. */
double max_error(const Case& c, const std::vector<uint16_t>& q, const std::vector<uint16_t>& k,
                 const std::vector<uint16_t>& v, const std::vector<uint16_t>& o) {
  double worst = 0;
  for (int head = 0; head < c.B * c.H; head += 5)
    for (int row = 0; row < c.S; row += 37) {
      const size_t base = static_cast<size_t>(head) * c.S * D;
      const int visible = c.causal ? row + 1 : c.S;
      std::vector<double> p(visible);
      double sum = 0;
      for (int key = 0; key < visible; ++key) {
        double score = 0;
        for (int d = 0; d < D; ++d) score += at(q, base + row * D + d) * at(k, base + key * D + d);
        sum += p[key] = std::exp(score * SCALE);
      }
      for (int d = 0; d < D; ++d) {
        double want = 0;
        for (int key = 0; key < visible; ++key) want += p[key] / sum * at(v, base + key * D + d);
        const double error = std::fabs(want - at(o, base + row * D + d));
        if (!(error <= worst)) worst = error;
      }
    }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6)
    return fprintf(stderr, "usage: attention <module> <entry> <rows a block> <threads> <shared bytes> [case]\n"), 2;
  const Kernels kernels(argv[1]);
  const unsigned rows = atoi(argv[3]), threads = atoi(argv[4]), shared = atoi(argv[5]);
  CHECK_OK(cuFuncSetAttribute(kernels.function(argv[2]), 8, static_cast<int>(shared)));
  double total_seconds = 0, total_flops = 0, worst = 0;
  flashcore_emulator_set_profiling(getenv("PROFILE") != nullptr);
  for (int i = 0; i < 7; ++i) {
    if (argc > 6 && atoi(argv[6]) != i) continue;
    const Case& c = PARITY[i];
    const size_t count = static_cast<size_t>(c.B) * c.H * c.S * D;
    const auto q = random_halves(count, 1), k = random_halves(count, 2), v = random_halves(count, 3);
    const Buffer<uint16_t> Q(q), K(k), V(v), O(count);
    const double start = seconds();
    const CUresult result = kernels.run(argv[2], grid_of(c, rows), {threads}, shared, Q.address(), K.address(),
                                        V.address(), O.address(), int(c.S), SCALE, int(c.causal));
    const double took = seconds() - start;
    if (result != CUDA_SUCCESS) return fprintf(stderr, "%s %s\n", name_of(result), last_fault().c_str()), 1;
    const double flops = 4.0 * c.B * c.H * c.S * double(c.S) * D * (c.causal ? 0.5 : 1.0);  // as the runner counts them
    const double error = max_error(c, q, k, v, O.read());
    printf("B%d H%d S%d D%d %s: %.3f CPU s, %.2f GFLOP/s, max error %.2e\n", c.B, c.H, c.S, D,
           c.causal ? "causal" : "full  ", took, flops / took * 1e-9, error);
    worst = std::max(worst, error);
    total_seconds += took;
    total_flops += flops;
  }
  printf("all: %.3f CPU s, %.2f GFLOP, %.2f GFLOP/s, max error %.2e\n", total_seconds, total_flops * 1e-9,
         total_flops / total_seconds * 1e-9, worst);
  if (getenv("PROFILE")) {
    std::vector<char> profile(1 << 20);
    flashcore_emulator_profile(profile.data(), profile.size());
    puts(profile.data());
  }
  char statistics[512];
  flashcore_emulator_statistics(statistics, sizeof statistics);
  puts(statistics);
}
