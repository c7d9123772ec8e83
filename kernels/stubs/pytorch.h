// The names of PyTorch in the host code of extensions, for sources that contain it: their device code compiles without
// PyTorch. Nothing here has an effect, and host code of a kernel is never run. A runner with PyTorch's own headers
// (`serve --headers torch=PATH`) uses those.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <iostream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace c10 {

enum class ScalarType : int8_t {
  Byte,
  Char,
  Short,
  Int,
  Long,
  Half,
  Float,
  Double,
  Bool,
  BFloat16,
  Float8_e4m3fn,
  Float8_e5m2
};
enum class DeviceType : int8_t { CPU, CUDA };
// Distinct types, so that a trait can be specialised for them as well as for CUDA's.
struct Half : __half {
  using __half::__half;
  Half() = default;
  __host__ __device__ Half(const __half& value) : __half(value) {}
};
struct BFloat16 : __nv_bfloat16 {
  using __nv_bfloat16::__nv_bfloat16;
  BFloat16() = default;
  __host__ __device__ BFloat16(const __nv_bfloat16& value) : __nv_bfloat16(value) {}
};
template <class T>
using optional = std::optional<T>;
inline constexpr std::nullopt_t nullopt = std::nullopt;

struct Device {
  Device(DeviceType = DeviceType::CPU, int = 0) {}
  int index() const { return 0; }
  DeviceType type() const { return DeviceType::CUDA; }
  bool is_cuda() const { return true; }
  bool operator==(const Device&) const { return true; }
  bool operator!=(const Device&) const { return false; }
};

/** One type that stands for all of PyTorch's element types. */
struct TypeMeta {
  TypeMeta(ScalarType = ScalarType::Float) {}
  operator ScalarType() const { return ScalarType::Float; }
  int64_t itemsize() const { return 4; }
};

struct TensorOptions {
  TensorOptions(ScalarType = ScalarType::Float) {}
  TensorOptions(Device) {}
  template <class... T>
  TensorOptions dtype(T...) const {
    return *this;
  }
  TypeMeta dtype() const { return {}; }
  template <class... T>
  TensorOptions device(T...) const {
    return *this;
  }
  template <class T>
  TensorOptions layout(T) const {
    return *this;
  }
  TensorOptions requires_grad(bool) const { return *this; }
};

/** Extents: a list in braces, a vector, or a tensor's. */
struct IntArrayRef {
  IntArrayRef() {}
  IntArrayRef(std::initializer_list<int64_t>) {}
  IntArrayRef(const std::vector<int64_t>&) {}
  IntArrayRef(int64_t) {}
  int64_t operator[](size_t) const { return 0; }
  size_t size() const { return 0; }
  const int64_t* begin() const { return nullptr; }
  const int64_t* end() const { return nullptr; }
  std::vector<int64_t> vec() const { return {}; }
  bool operator==(const IntArrayRef&) const { return true; }
  bool operator!=(const IntArrayRef&) const { return false; }
};

template <class T>
std::ostream& operator<<(std::ostream& out, const T*) = delete;
inline std::ostream& operator<<(std::ostream& out, const TensorOptions&) { return out; }
inline std::ostream& operator<<(std::ostream& out, ScalarType) { return out; }
inline std::ostream& operator<<(std::ostream& out, const TypeMeta&) { return out; }
inline std::ostream& operator<<(std::ostream& out, const IntArrayRef&) { return out; }

}  // namespace c10

namespace at {

using namespace c10;

/** Accepts what host code does with tensors; every function returns an empty value. */
struct Tensor {
  Tensor() {}
  template <class T = void>
  T* data_ptr() const {
    return nullptr;
  }
  template <class T = void>
  T* mutable_data_ptr() const {
    return nullptr;
  }
  template <class T = void>
  const T* const_data_ptr() const {
    return nullptr;
  }
  template <class T>
  T* data() const {
    return nullptr;
  }
  template <class T>
  T item() const {
    return {};
  }
  int64_t size(int64_t) const { return 0; }
  int64_t stride(int64_t) const { return 0; }
  IntArrayRef sizes() const { return {}; }
  IntArrayRef strides() const { return {}; }
  int64_t dim() const { return 0; }
  int64_t ndimension() const { return 0; }
  int64_t numel() const { return 0; }
  int64_t nbytes() const { return 0; }
  int64_t element_size() const { return 0; }
  int64_t storage_offset() const { return 0; }
  TensorOptions options() const { return {}; }
  TypeMeta dtype() const { return {}; }
  ScalarType scalar_type() const { return ScalarType::Float; }
  ScalarType type() const { return ScalarType::Float; }
  Device device() const { return {}; }
  int get_device() const { return 0; }
  bool is_cuda() const { return true; }
  bool is_contiguous() const { return true; }
  bool defined() const { return true; }
  bool requires_grad() const { return false; }
  operator bool() const { return true; }
  Tensor operator[](int64_t) const { return {}; }
#define FLASHCORE_TENSOR_METHOD(NAME) \
  template <class... T>               \
  Tensor NAME(T...) const {           \
    return {};                        \
  }
  FLASHCORE_TENSOR_METHOD(contiguous)
  FLASHCORE_TENSOR_METHOD(transpose)
  FLASHCORE_TENSOR_METHOD(unsqueeze)
  FLASHCORE_TENSOR_METHOD(squeeze)
  FLASHCORE_TENSOR_METHOD(flatten)
  FLASHCORE_TENSOR_METHOD(select)
  FLASHCORE_TENSOR_METHOD(narrow)
  FLASHCORE_TENSOR_METHOD(slice)
  FLASHCORE_TENSOR_METHOD(clone)
  FLASHCORE_TENSOR_METHOD(detach)
  FLASHCORE_TENSOR_METHOD(copy_)
  FLASHCORE_TENSOR_METHOD(fill_)
  FLASHCORE_TENSOR_METHOD(zero_)
  FLASHCORE_TENSOR_METHOD(to)
  FLASHCORE_TENSOR_METHOD(cuda)
  FLASHCORE_TENSOR_METHOD(cpu)
  FLASHCORE_TENSOR_METHOD(t)
  FLASHCORE_TENSOR_METHOD(sum)
  FLASHCORE_TENSOR_METHOD(half)
#undef FLASHCORE_TENSOR_METHOD
#define FLASHCORE_TENSOR_SHAPED(NAME)    \
  template <class... T>                  \
  Tensor NAME(IntArrayRef, T...) const { \
    return {};                           \
  }
  FLASHCORE_TENSOR_SHAPED(view)
  FLASHCORE_TENSOR_SHAPED(reshape)
  FLASHCORE_TENSOR_SHAPED(permute)
  FLASHCORE_TENSOR_SHAPED(expand)
  FLASHCORE_TENSOR_SHAPED(new_empty)
#undef FLASHCORE_TENSOR_SHAPED
};
inline std::ostream& operator<<(std::ostream& out, const Tensor&) { return out; }

#define FLASHCORE_TENSOR_MAKER(NAME) \
  template <class... T>              \
  Tensor NAME(IntArrayRef, T...) {   \
    return {};                       \
  }
FLASHCORE_TENSOR_MAKER(empty)
FLASHCORE_TENSOR_MAKER(zeros)
FLASHCORE_TENSOR_MAKER(ones)
FLASHCORE_TENSOR_MAKER(full)
FLASHCORE_TENSOR_MAKER(rand)
FLASHCORE_TENSOR_MAKER(randn)
#undef FLASHCORE_TENSOR_MAKER
#define FLASHCORE_TENSOR_LIKE(NAME)  \
  template <class... T>              \
  Tensor NAME(const Tensor&, T...) { \
    return {};                       \
  }
FLASHCORE_TENSOR_LIKE(empty_like)
FLASHCORE_TENSOR_LIKE(zeros_like)
FLASHCORE_TENSOR_LIKE(ones_like)
FLASHCORE_TENSOR_LIKE(full_like)
FLASHCORE_TENSOR_LIKE(randn_like)
#undef FLASHCORE_TENSOR_LIKE
template <class T>
void fill(const Tensor&, T) {}

constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA;
constexpr ScalarType kByte = ScalarType::Byte, kUInt8 = kByte, kChar = ScalarType::Char, kInt8 = kChar,
                     kShort = ScalarType::Short, kInt16 = kShort, kInt = ScalarType::Int, kInt32 = kInt,
                     kLong = ScalarType::Long, kInt64 = kLong, kHalf = ScalarType::Half, kFloat16 = kHalf,
                     kFloat = ScalarType::Float, kFloat32 = kFloat, kDouble = ScalarType::Double, kFloat64 = kDouble,
                     kBool = ScalarType::Bool, kBFloat16 = ScalarType::BFloat16,
                     kFloat8_e4m3fn = ScalarType::Float8_e4m3fn, kFloat8_e5m2 = ScalarType::Float8_e5m2;

namespace cuda {
struct CUDAStream {
  operator cudaStream_t() const { return nullptr; }
  cudaStream_t stream() const { return nullptr; }
};
inline CUDAStream getCurrentCUDAStream(int = 0) { return {}; }
inline CUDAStream getDefaultCUDAStream(int = 0) { return {}; }
inline cudaDeviceProp* getCurrentDeviceProperties() { return nullptr; }
inline cudaDeviceProp* getDeviceProperties(int) { return nullptr; }
struct CUDAGuard {
  template <class T>
  explicit CUDAGuard(T) {}
};
struct OptionalCUDAGuard {
  template <class... T>
  explicit OptionalCUDAGuard(T...) {}
};
}  // namespace cuda

}  // namespace at

namespace c10 {
namespace cuda {
using namespace at::cuda;
}
}  // namespace c10

namespace torch {
using namespace at;
namespace cuda = at::cuda;
using Dtype = c10::ScalarType;
}  // namespace torch

namespace pybind11 {
struct arg {
  explicit arg(const char*) {}
  template <class T>
  arg& operator=(T) {
    return *this;
  }
};
struct object {
  template <class... T>
  object& def(T&&...) {
    return *this;
  }
  template <class... T>
  object& impl(T&&...) {
    return *this;
  }
  template <class... T>
  object& def_readwrite(T&&...) {
    return *this;
  }
  object& doc() { return *this; }
  template <class T>
  object& operator=(T) {
    return *this;
  }
};
using module_ = object;
using module = object;
}  // namespace pybind11
namespace py = pybind11;

#define PYBIND11_MODULE(NAME, MODULE) [[maybe_unused]] static void flashcore_python_module(::pybind11::module_& MODULE)
#define TORCH_LIBRARY(NAME, MODULE) [[maybe_unused]] static void flashcore_library_##NAME(::pybind11::module_& MODULE)
#define TORCH_LIBRARY_FRAGMENT(NAME, MODULE) \
  [[maybe_unused]] static void flashcore_fragment_##NAME(::pybind11::module_& MODULE)
#define TORCH_LIBRARY_IMPL(NAME, KEY, MODULE) \
  [[maybe_unused]] static void flashcore_library_##NAME##_##KEY(::pybind11::module_& MODULE)
#ifndef TORCH_EXTENSION_NAME
#define TORCH_EXTENSION_NAME extension
#endif

#define TORCH_CHECK(...) static_cast<void>(0)
#define TORCH_INTERNAL_ASSERT(...) static_cast<void>(0)
#define TORCH_WARN(...) static_cast<void>(0)
#define TORCH_CHECK_EQ(...) static_cast<void>(0)
#define AT_ASSERTM(...) static_cast<void>(0)
#define AT_ERROR(...) static_cast<void>(0)
#define AT_CUDA_CHECK(CALL) static_cast<void>(CALL)
#define C10_CUDA_CHECK(CALL) static_cast<void>(CALL)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() static_cast<void>(0)

// One instance stands for all element types: kernel.yaml names the entry that it launches (`entry: "kernel<float>"`).
#define FLASHCORE_DISPATCH(TYPE, NAME, ...)  \
  [&] {                                      \
    using scalar_t [[maybe_unused]] = float; \
    return __VA_ARGS__();                    \
  }()
#define AT_DISPATCH_ALL_TYPES(...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(OTHER, ...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(OTHER, ANOTHER, ...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(OTHER, ...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(OTHER, ANOTHER, ...) FLASHCORE_DISPATCH(__VA_ARGS__)
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(...) FLASHCORE_DISPATCH(__VA_ARGS__)
