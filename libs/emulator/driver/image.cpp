#include "module.h"

#include <algorithm>
#include <cstring>

#if defined(__APPLE__)
#include <mach-o/loader.h>
#else
#include <elf.h>
#endif

namespace flashcore::emu {

namespace {
/** PTX begins with comments or with .version. */
bool is_ptx(const void* image) {
  const char* text = static_cast<const char*>(image);
  while (*text == ' ' || *text == '\t' || *text == '\r' || *text == '\n') ++text;
  return strncmp(text, "//", 2) == 0 || strncmp(text, "/*", 2) == 0 || strncmp(text, ".version", 8) == 0;
}
}  // namespace

#if defined(__APPLE__)

Image inspect_image(const void* image) {
  if (is_ptx(image)) return {ImageKind::Ptx, strlen(static_cast<const char*>(image))};
  mach_header_64 header;
  memcpy(&header, image, sizeof header);
  if (header.magic != MH_MAGIC_64) return {ImageKind::Unknown, 0};
  const char* command = static_cast<const char*>(image) + sizeof header;
  size_t end = sizeof header + header.sizeofcmds;
  for (uint32_t i = 0; i < header.ncmds; ++i) {
    load_command generic;
    memcpy(&generic, command, sizeof generic);
    if (generic.cmd == LC_SEGMENT_64) {
      segment_command_64 segment;
      memcpy(&segment, command, sizeof segment);
      end = std::max(end, static_cast<size_t>(segment.fileoff + segment.filesize));
    }
    command += generic.cmdsize;
  }
  return {ImageKind::Loadable, end};
}

#else

namespace {
#if defined(__x86_64__)
constexpr Elf64_Half THIS_MACHINE = EM_X86_64;
#else
constexpr Elf64_Half THIS_MACHINE = EM_AARCH64;
#endif
}  // namespace

Image inspect_image(const void* image) {
  if (is_ptx(image)) return {ImageKind::Ptx, strlen(static_cast<const char*>(image))};
  if (memcmp(image, ELFMAG, SELFMAG) != 0) return {ImageKind::Unknown, 0};
  Elf64_Ehdr header;
  memcpy(&header, image, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != THIS_MACHINE || header.e_type != ET_DYN)
    return {ImageKind::OtherMachine, 0};
  const char* bytes = static_cast<const char*>(image);
  size_t end = static_cast<size_t>(header.e_shoff) + size_t(header.e_shnum) * header.e_shentsize;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    memcpy(&segment, bytes + header.e_phoff + size_t(i) * header.e_phentsize, sizeof segment);
    end = std::max(end, static_cast<size_t>(segment.p_offset + segment.p_filesz));
  }
  return {ImageKind::Loadable, end};
}

#endif

}  // namespace flashcore::emu
