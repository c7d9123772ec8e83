// Runs the programs of kernels/checked.cu, documented.cu and audited.cu with the race checks: each fault is reported
// with its line, and correct programs give no report.
#include <map>
#include <regex>
#include <sstream>
#include <utility>

#include "driver.h"

namespace {

constexpr size_t COUNT = 4096;
constexpr int LENGTH = 64;

struct Program {
  std::string name, expected;  // "correct" or a kind of fault
  unsigned blocks, threads, shared_bytes;
  std::vector<int> lines;  // lines of the fault
};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0, end = 0; end != std::string::npos; at = end + 2)
    parts.push_back(list.substr(at, (end = list.find(", ", at)) - at));
  return parts;
}

unsigned number_of(const std::string& digits) { return static_cast<unsigned>(std::stoul(digits)); }

std::vector<Program> programs_of(const std::string& source) {
  std::vector<Program> programs;
  std::vector<std::pair<std::string, int>> of_helpers;  // "// fault in one, another" and the line's number
  Program size;
  std::vector<std::string> expected;
  size_t first_of_family = 0;
  const std::regex verdicts("// ([A-Za-z_, ]+) (\\d+) (\\d+) (\\d+)"),
      family("(?:PROGRAM|PAIR|TRIO)\\w*\\(([^)]*)\\) \\{.*");
  std::istringstream text(source);
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    std::smatch found;
    if (std::regex_match(line, found, verdicts)) {
      expected = parts_of(found[1]);
      size = {"", "", number_of(found[2]), number_of(found[3]), number_of(found[4]), {}};
    } else if (std::regex_match(line, found, family)) {
      const std::vector<std::string> names = parts_of(found[1]);
      CHECK(names.size() == expected.size());
      first_of_family = programs.size();
      for (size_t n = 0; n < names.size(); ++n) {
        programs.push_back(size);
        programs.back().name = names[n];
        programs.back().expected = expected[n];
      }
      expected.clear();
    } else if (const size_t names = line.find("  // fault in "); names != std::string::npos) {
      of_helpers.emplace_back(line.substr(names) + ",", number);
    } else if (line.find("  // fault") != std::string::npos) {
      CHECK(!programs.empty());
      for (size_t n = first_of_family; n < programs.size(); ++n) programs[n].lines.push_back(number);
    }
  }
  for (Program& program : programs)
    for (const auto& [names, number_of_line] : of_helpers)
      if (names.find(" " + program.name + ",") != std::string::npos) program.lines.push_back(number_of_line);
  return programs;
}

/** What every program gets: numbers, an output that nobody has written, and a workspace of zeros. */
struct Memory {
  Buffer<float> in, out{COUNT};
  Buffer<int> scratch{std::vector<int>(COUNT, 0)};
  Memory() : in(numbers()) {
    CHECK(flashcore_emulator_mark_memory(out.address(), COUNT * 4, 2) == 0);
    CHECK(flashcore_emulator_mark_memory(scratch.address(), COUNT * 4, 3) == 0);
  }
  CUresult run(const Kernels& kernels, const Program& program, int length) const {
    return kernels.run(program.name.c_str(), {{program.blocks}, {program.threads}, program.shared_bytes}, in.address(),
                       out.address(), scratch.address(), length);
  }

 private:
  static std::vector<float> numbers() {
    std::vector<float> values(COUNT);
    for (size_t n = 0; n < COUNT; ++n) values[n] = static_cast<float>(n % 61);
    return values;
  }
};

/** Returns "correct", or the kind of the fault and whether the report names one of the program's lines. */
std::string answer_of(const Kernels& kernels, const std::string& file, const Program& program) {
  const CUresult result = Memory().run(kernels, program, LENGTH);
  if (result == CUDA_SUCCESS) return "correct";
  const std::string fault = last_fault();
  CHECK_OK(cuDevicePrimaryCtxReset_v2(0));
  const size_t kind = fault.find("\"kind\":\"") + 8;
  std::string answer = fault.substr(kind, fault.find('"', kind) - kind);
  for (const int line : program.lines)
    for (const char* end : {"\"", ",", " "})
      if (fault.find(file + ".cu:" + std::to_string(line) + end) != std::string::npos) return answer + " with its line";
  return answer + " without its line: " + fault;
}

void test_programs(const std::string& name, int faulty, int correct) {
  std::ifstream file(std::string(getenv("FLASHCORE_TEST_MODULES")) + "/" + name + ".cu");
  const std::vector<Program> programs = programs_of({std::istreambuf_iterator<char>(file), {}});
  const Kernels kernels(name + "_watched");
  std::map<bool, int> as_expected, of_kind;
  for (const Program& program : programs) {
    const bool is_correct = program.expected == "correct";
    const std::string wanted = is_correct ? program.expected : program.expected + " with its line";
    const std::string answer = answer_of(kernels, name, program);
    ++of_kind[is_correct];
    as_expected[is_correct] += answer == wanted;
    if (answer != wanted)
      fprintf(stderr, "%s: wanted %s, is %s\n", program.name.c_str(), wanted.c_str(), answer.c_str());
  }
  fprintf(stderr, "%s.cu: %d of %d faults found with their line, %d of %d correct programs without a finding\n",
          name.c_str(), as_expected[false], of_kind[false], as_expected[true], of_kind[true]);
  CHECK(of_kind[false] == faulty && of_kind[true] == correct);
  CHECK(as_expected == of_kind);
}

/** An unwritten field that one launch stores to a workspace is a fault of the next, which names the first one's line. */
void test_two_launches() {
  const Kernels kernels("documented_watched");
  const Program keeps{"keeps_structs", "", 1, 32, 0, {}}, reads{"reads_structs", "", 1, 32, 0, {}};
  for (const int length : {LENGTH, 0}) {
    const Memory memory;
    CHECK_OK(memory.run(kernels, keeps, length));
    CHECK((memory.run(kernels, reads, length) == CUDA_SUCCESS) == (length != 0));
  }
  const std::string fault = last_fault();
  CHECK(fault.find("UNINITIALISED_READ") != std::string::npos);
  CHECK(fault.find("of t (static shared memory)") != std::string::npos);
  CHECK(fault.find("a branch at documented.cu") != std::string::npos);
  CHECK_OK(cuDevicePrimaryCtxReset_v2(0));
}

}  // namespace

int main() {
  CHECK(flashcore_emulator_time_limit(10000) == 0);  // of each launch: a program that never ends is a fault, too
  test_programs("checked", 63, 58);
  test_programs("documented", 65, 50);
  test_programs("audited", 34, 18);
  test_two_launches();
}
