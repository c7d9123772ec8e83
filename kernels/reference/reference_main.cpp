// Runs a problem's reference.cpp: reads a case from standard input and writes the outputs' doubles to standard output.
// Numbers are little-endian; names are NUL-padded to 32 bytes.
//   u32 values, each: name, f64
//   u32 tensors, each: name, u32 dtype, u32 is output, u32 rank, rank x i64; for an input its bytes
// With the argument "check" it exits at once, which shows that it can run here.
#include <fcntl.h>
#include <unistd.h>

#include "flashcore_reference.h"

namespace {
void read_all(void* place, size_t bytes) {
  auto* to = static_cast<unsigned char*>(place);
  while (bytes > 0) {
    const ssize_t got = read(STDIN_FILENO, to, bytes);
    if (got <= 0) flashcore::fail("the case ended early");
    to += got;
    bytes -= static_cast<size_t>(got);
  }
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
}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "check") == 0) return 0;
  // Text that the reference prints must not mix with its outputs. Text that does not fit into the pipe is lost.
  const int out = dup(STDOUT_FILENO);
  int printed[2];
  if (pipe2(printed, O_NONBLOCK) != 0) flashcore::fail("there is no pipe for what reference.cpp prints");
  dup2(printed[1], STDOUT_FILENO);
  flashcore::Case c;
  for (uint32_t left = number<uint32_t>(); left > 0; --left) {
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
    flashcore::fail("reference.cpp prints \"" + std::string(text, got) + "\": remove that, or print to stderr");
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
