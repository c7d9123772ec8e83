// The shared object that cuModuleLoadData is given without its size.
#pragma once
#include <cstddef>

namespace flashcore::emu {

enum class ImageKind { Loadable, OtherMachine, Unknown };

struct Image {
  ImageKind kind;
  size_t bytes;
};

/** What stands at `image`: an ELF or Mach-O shared object for this machine, or something else (a cubin, PTX). */
Image inspect_image(const void* image);

}  // namespace flashcore::emu
