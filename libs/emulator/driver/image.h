// Recognizes the images that cuModuleLoadData receives; the call does not pass their size.
#pragma once
#include <cstddef>

namespace flashcore::emu {

enum class ImageKind { Loadable, OtherMachine, Ptx, Unknown };

struct Image {
  ImageKind kind;
  size_t bytes;
};

/**
 * Tells whether `image` is an ELF or Mach-O shared object for this machine, PTX (text that ends with a 0), or something
 * else.
 */
Image inspect_image(const void* image);

}  // namespace flashcore::emu
