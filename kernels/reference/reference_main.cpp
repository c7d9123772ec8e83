// Runs a problem's reference.cpp: reads cases from standard input until it ends, and writes the doubles of each case's
// outputs, then a newline, to standard output. Numbers are little-endian; names are NUL-padded to 32 bytes.
//   u32 values, each: name, f64
//   u32 tensors, each: name, u32 dtype, u32 is output, u32 rank, rank x i64; for an input its bytes
// With the argument "check" it exits at once, which shows that it can run here.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flashcore_reference.h"

namespace {
// Returns how many bytes there were: fewer than asked for if the input has ended.
size_t read_up_to(void* place, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    const ssize_t part = read(STDIN_FILENO, static_cast<unsigned char*>(place) + got, bytes - got);
    if (part <= 0) break;
    got += static_cast<size_t>(part);
  }
  return got;
}
void read_all(void* place, size_t bytes) {
  if (read_up_to(place, bytes) < bytes) flashcore::fail("the case ended early");
}
template <typename Number>
Number number() {
  Number value;
  read_all(&value, sizeof value);
  return value;
}
std::string name() {
  char text[33] = {};
  read_all(text, 32);
  return text;
}

// Computes the case whose number of values has been read. Returns the process's exit status.
int run_case(uint32_t values) {
  // Text that the reference prints must not mix with its outputs. Text that does not fit into the pipe is lost.
  const int out = dup(STDOUT_FILENO);
  int printed[2];
  if (pipe2(printed, O_NONBLOCK) != 0) flashcore::fail("there is no pipe for what reference.cpp prints");
  dup2(printed[1], STDOUT_FILENO);
  flashcore::Case c;
  for (uint32_t left = values; left > 0; --left) {
    const std::string named = name();
    c.values.emplace_back(named, number<double>());
  }
  for (uint32_t left = number<uint32_t>(); left > 0; --left) {
    flashcore::Tensor tensor;
    tensor.name = name();
    tensor.dtype = static_cast<flashcore::Dtype>(number<uint32_t>());
    tensor.is_output = number<uint32_t>() != 0;
    tensor.dims.resize(number<uint32_t>());
    size_t elements = 1;
    for (int64_t& extent : tensor.dims) elements *= static_cast<size_t>(extent = number<int64_t>());
    if (tensor.is_output) {
      tensor.values.assign(elements, flashcore::unset());
    } else {
      tensor.bytes.resize(elements * flashcore::bytes_of(tensor.dtype));
      read_all(tensor.bytes.data(), tensor.bytes.size());
    }
    c.tensors.push_back(std::move(tensor));
  }
  reference(c);
  std::fflush(stdout);
  char text[200];
  if (const ssize_t got = read(printed[0], text, sizeof text); got > 0)
    flashcore::fail("reference.cpp prints \"" + std::string(text, got - (text[got - 1] == '\n')) +
                    "\": remove that, or print to stderr");
  for (const flashcore::Tensor& tensor : c.tensors) flashcore::require_set(tensor);
  for (const flashcore::Tensor& tensor : c.tensors) {
    const auto* from = reinterpret_cast<const unsigned char*>(tensor.values.data());
    for (size_t left = tensor.values.size() * sizeof(double); left > 0;) {
      const ssize_t written = write(out, from, left);
      if (written <= 0) return 1;
      from += written;
      left -= static_cast<size_t>(written);
    }
  }
  return 0;
}

// Ends this process as the process of a case ended, unless that gave all outputs.
void require_end(int status, bool given) {
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  if (!given) flashcore::fail("reference.cpp ended its process: it must return");
}
}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "check") == 0) return 0;
  uint32_t values;
  while (read_up_to(&values, sizeof values) == sizeof values) {
    // Each case has its own process, so that a reference keeps nothing from one case to the next.
    int ends[2];
    if (pipe(ends) != 0) flashcore::fail("there is no pipe for the process of a case");
    const pid_t process = fork();
    if (process < 0) flashcore::fail("there is no process for a case");
    if (process == 0) {
      close(ends[0]);
      const int status = run_case(values);
      if (status == 0 && write(ends[1], "", 1) != 1) return 1;
      return status;
    }
    // The pipe ends when the process and all that the reference has started have ended, because each holds its end.
    close(ends[1]);
    bool given = false;
    for (char byte; read(ends[0], &byte, 1) > 0;) given = true;
    close(ends[0]);
    int status = 0;
    waitpid(process, &status, 0);
    require_end(status, given);
    if (write(STDOUT_FILENO, "\n", 1) != 1) return 1;
  }
  return 0;
}
