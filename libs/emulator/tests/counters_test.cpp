// Compares shared-memory counters with ncu's readings on an H200 (lab/results/h200-2026-11-21): bank conflicts as a
// percentage of wavefronts, and wavefronts per request. `npm run counters` does this for all builds.
#include "driver.h"

namespace {

struct Build {
  const char *module, *entry;
  int batch, seq_len, heads;
  unsigned rows, threads, shared_bytes;
  double conflict_percent, wavefronts_per_request;
};
constexpr Build BUILDS[] = {
    {"bank_conflict_32way", "bank_conflict_32way", 1, 128, 4, 4, 128, 0, 73.7284, 5.43770},
    {"fa_tc_s512", "fa_tc_s512", 2, 512, 8, 64, 128, 24576, 0, 17.41176},
    {"flashcore_v7", "flashcore_v7", 2, 512, 8, 64, 128, 64512, 4.47928, 2.35000},
};
constexpr int HEAD_DIM = 64;

/** The sum of the counts in a launch's profile whose names end with `ending`. */
double sum(const std::string& profile, const std::string& ending) {
  const std::string counts = profile.substr(0, profile.find("\"lines\""));
  double all = 0;
  for (const char* op : {"shared_load", "shared_store"}) {
    const std::string name = "\"" + std::string(op) + ending + "\":";
    const size_t at = counts.find(name);
    if (at != std::string::npos) all += atof(counts.c_str() + at + name.size());
  }
  return all;
}

void test_counters(const Build& build) {
  const Kernels kernels(build.module);
  const size_t count = static_cast<size_t>(build.batch) * build.heads * build.seq_len * HEAD_DIM;
  const Buffer<uint16_t> Q(std::vector<uint16_t>(count, 0)), K(count), V(count), O(count);
  if (build.shared_bytes)
    CHECK_OK(cuFuncSetAttribute(kernels.function(build.entry), 8, static_cast<int>(build.shared_bytes)));
  flashcore_emulator_set_profiling(1);
  const Size grid{build.seq_len / build.rows, static_cast<unsigned>(build.batch * build.heads)};
  CHECK_OK(kernels.run(build.entry, {grid, {build.threads}, build.shared_bytes}, Q.address(), K.address(), V.address(),
                       O.address(), build.seq_len, 0.125f, 0));
  std::string profile(1 << 18, 0);
  profile.resize(static_cast<size_t>(flashcore_emulator_profile(profile.data(), profile.size())));
  const double wavefronts = sum(profile, "_wavefronts");
  const double percent = 100 * sum(profile, "_conflicts") / wavefronts;
  const double per_request = wavefronts / sum(profile, "_requests");
  if (std::fabs(percent - build.conflict_percent) > 0.1 ||
      std::fabs(per_request / build.wavefronts_per_request - 1) > 0.01)
    fprintf(stderr, "%s: %.4f %% conflicts (ncu %.4f), %.5f wavefronts a request (ncu %.5f)\n", build.module, percent,
            build.conflict_percent, per_request, build.wavefronts_per_request);
  CHECK(std::fabs(percent - build.conflict_percent) <= 0.1);
  CHECK(std::fabs(per_request / build.wavefronts_per_request - 1) <= 0.01);
  CHECK(build.conflict_percent < 70 || profile.find("bank_conflict_32way.cu:34\":{") != std::string::npos);
}

/** The trace of a single block has every step that the profile counts. */
void test_trace(const Build& build) {
  const Kernels kernels(build.module);
  const Buffer<uint16_t> Q(static_cast<size_t>(build.batch) * build.heads * build.seq_len * HEAD_DIM);
  const auto run = [&] {
    CHECK_OK(kernels.run(build.entry,
                         {{build.seq_len / build.rows, static_cast<unsigned>(build.batch * build.heads)},
                          {build.threads},
                          build.shared_bytes},
                         Q.address(), Q.address(), Q.address(), Q.address(), build.seq_len, 0.125f, 0));
  };
  flashcore_emulator_set_profiling(1);
  CHECK(flashcore_emulator_trace_blocks(0, 0, 1) != CUDA_SUCCESS);
  CHECK_OK(static_cast<CUresult>(flashcore_emulator_trace_blocks(3, 1, 1)));
  run();
  std::string profile(1 << 18, 0);
  flashcore_emulator_profile(profile.data(), profile.size());
  const char* const instructions = "\"instructions\":";
  const uint64_t counted = strtoull(profile.c_str() + profile.find(instructions) + strlen(instructions), nullptr, 10);
  CHECK(profile.find("\"blocks\":1,") != std::string::npos);
  std::vector<uint32_t> words(static_cast<size_t>(flashcore_emulator_trace(nullptr, 0)) / 4);
  flashcore_emulator_trace(words.data(), words.size() * 4);
  size_t at = 1 + words[0] / 4;
  CHECK(words[at++] == 1);
  uint64_t steps = 0;
  for (uint32_t warps = words[at++]; warps > 0; --warps) {
    steps += words[at];
    at += 1 + words[at];
  }
  CHECK(at == words.size());
  CHECK(steps == counted);
  flashcore_emulator_set_profiling(0);
  CHECK(flashcore_emulator_trace(nullptr, 0) == 0);
}

}  // namespace

int main() {
  for (const Build& build : BUILDS) test_counters(build);
  test_trace(BUILDS[0]);
}
