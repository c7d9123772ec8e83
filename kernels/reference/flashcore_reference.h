// A problem's reference.cpp includes this header and defines one function, which computes the expected outputs of a
// case in double precision:
//
//   #include "flashcore_reference.h"
//   void reference(const flashcore::Case& c) {
//     const auto X = c.input("X");
//     auto Y = c.output("Y");
//     for (long row = 0; row < X.extent(0); ++row) Y(row) = ...;
//   }
//
// It runs in its own process, in a sandbox without files or network.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace flashcore {

// FLASHCORE_DTYPE_* of attention_reference.h.
enum class Dtype : uint32_t { fp16 = 0, bf16 = 1, fp32 = 2, e4m3 = 4, e5m2 = 5, int8 = 6, int32 = 7 };

inline size_t bytes_of(Dtype dtype) {
  if (dtype == Dtype::fp32 || dtype == Dtype::int32) return 4;
  return dtype == Dtype::fp16 || dtype == Dtype::bf16 ? 2 : 1;
}

[[noreturn]] inline void fail(const std::string& message) {
  std::fprintf(stderr, "%s\n", message.c_str());
  std::exit(1);
}

inline double value_of(Dtype dtype, const unsigned char* element) {
  if (dtype == Dtype::fp32) {
    float value;
    std::memcpy(&value, element, 4);
    return value;
  }
  if (dtype == Dtype::int32) {
    int32_t value;
    std::memcpy(&value, element, 4);
    return value;
  }
  if (dtype == Dtype::int8) return static_cast<int8_t>(*element);
  uint16_t bits;
  if (dtype == Dtype::e5m2) {
    bits = static_cast<uint16_t>(*element << 8);  // the upper half of an fp16
  } else if (dtype == Dtype::e4m3) {
    // An fp16 whose value is 2^8 too small. There is one NaN and no infinity.
    bits = static_cast<uint16_t>((*element & 0x80) << 8 | (*element & 0x7f) << 7);
    return (*element & 0x7f) == 0x7f ? __builtin_nan("")
                                     : 0x1p8 * value_of(Dtype::fp16, reinterpret_cast<unsigned char*>(&bits));
  } else {
    std::memcpy(&bits, element, 2);
  }
  if (dtype == Dtype::bf16) {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, 4);
    return value;
  }
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double magnitude = exponent == 0 ? fraction * 0x1p-24 : (1024 + fraction) * 0x1p-25;
  if (exponent == 31)
    magnitude = fraction ? __builtin_nan("") : __builtin_inf();
  else
    for (int e = 1; exponent > 0 && e <= exponent; ++e) magnitude *= 2;
  return bits & 0x8000 ? -magnitude : magnitude;
}

struct Tensor {
  std::string name;
  Dtype dtype;
  bool is_output;
  std::vector<int64_t> dims;  // outermost first
  std::vector<unsigned char> bytes;
  std::vector<double> values;  // the values of an output
};

// The value of an output's element until the reference sets it: a NaN that no arithmetic produces.
inline double unset() {
  const uint64_t bits = 0x7ff8f1a5c07e5e70;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Refuses an output if the reference has left some of its elements unset.
inline void require_set(const Tensor& tensor) {
  const double pattern = unset();
  size_t left = 0;
  for (const double& value : tensor.values) left += std::memcmp(&value, &pattern, sizeof value) == 0;
  if (left > 0)
    fail("reference.cpp set " + std::to_string(tensor.values.size() - left) + " of " +
         std::to_string(tensor.values.size()) + " elements of " + tensor.name + ": it must set every element");
}

class Extents {
 public:
  long rank() const { return static_cast<long>(tensor_->dims.size()); }
  // Extent of dimension `axis`, counted from the outermost.
  long extent(long axis) const {
    if (axis < 0 || axis >= rank()) fail(tensor_->name + " has " + std::to_string(rank()) + " dimensions");
    return tensor_->dims[axis];
  }
  long size() const {
    long product = 1;
    for (const int64_t extent : tensor_->dims) product *= extent;
    return product;
  }

 protected:
  explicit Extents(Tensor* tensor) : tensor_(tensor) {}
  template <typename... Index>
  size_t at(Index... index) const {
    const long indices[] = {static_cast<long>(index)...};
    if (static_cast<long>(sizeof...(index)) != rank())
      fail(tensor_->name + " has " + std::to_string(rank()) + " dimensions, got " + std::to_string(sizeof...(index)) +
           " indices");
    size_t place = 0;
    for (long axis = 0; axis < rank(); ++axis) {
      if (indices[axis] < 0 || indices[axis] >= tensor_->dims[axis])
        fail(tensor_->name + ": index " + std::to_string(indices[axis]) + " of dimension " + std::to_string(axis) +
             " must be from 0 to " + std::to_string(tensor_->dims[axis] - 1));
      place = place * tensor_->dims[axis] + indices[axis];
    }
    return place;
  }
  Tensor* tensor_;
};

// The elements that the kernel receives, as doubles: X(i, j).
class Input : public Extents {
 public:
  explicit Input(Tensor* tensor) : Extents(tensor) {}
  template <typename... Index>
  double operator()(Index... index) const {
    return value_of(tensor_->dtype, tensor_->bytes.data() + bytes_of(tensor_->dtype) * at(index...));
  }
};

// The elements of an output. The reference must set every one of them: Y(i, j) = value.
class Output : public Extents {
 public:
  explicit Output(Tensor* tensor) : Extents(tensor) {}
  template <typename... Index>
  double& operator()(Index... index) {
    return tensor_->values[at(index...)];
  }
};

class Case {
 public:
  Input input(const std::string& name) const { return Input(named(name, false)); }
  Output output(const std::string& name) const { return Output(named(name, true)); }
  // Whether an optional output is wanted. Only some kernels have such an output as an argument.
  bool has_output(const std::string& name) const {
    for (const Tensor& tensor : tensors)
      if (tensor.name == name && tensor.is_output) return true;
    return false;
  }
  // The value of an axis or attribute.
  double value(const std::string& name) const {
    for (const auto& [known, value] : values)
      if (known == name) return value;
    fail("the problem has no axis or attribute " + name);
  }
  std::vector<std::pair<std::string, double>> values;
  mutable std::vector<Tensor> tensors;

 private:
  Tensor* named(const std::string& name, bool is_output) const {
    for (Tensor& tensor : tensors)
      if (tensor.name == name && tensor.is_output == is_output) return &tensor;
    fail(std::string("the problem has no ") + (is_output ? "output " : "input ") + name);
  }
};

}  // namespace flashcore

void reference(const flashcore::Case& c);
