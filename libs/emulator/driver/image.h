// The shared object that cuModuleLoadData is given without its size.
#pragma once
#include <cstddef>

namespace flashcore::emu {

enum class ImageKind { Loadable, OtherMachine, Ptx, Unknown };

struct Image {
  ImageKind kind;
  size_t bytes;
};

/** What stands at `image`: an ELF or Mach-O shared object for this machine, PTX (a text that ends with a 0), or something else. */
Image inspect_image(const void* image);

}  // namespace flashcore::emu
