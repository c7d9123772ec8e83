// FlashInfer's errors as return values of C functions: an exception must not leave a shared object.
#pragma once
#include <cuda_runtime_api.h>

#include <exception>
#include <string>

// Text of the last exception in this thread; flashinfer_message() returns it.
inline thread_local std::string last_message;

// Returns call()'s CUDA error, or -1 after an exception.
template <typename Call>
int guarded(Call call) {
  try {
    return static_cast<int>(call());
  } catch (const std::exception& error) {
    last_message = error.what();
    return -1;
  }
}
