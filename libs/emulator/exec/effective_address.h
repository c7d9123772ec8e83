// Computes the address that an x86-64 instruction accessed. The processor reports the address for a page fault, but not
// for a general-protection fault, which an address beyond the 48-bit space or a misaligned vector access raises.
#pragma once

#if defined(__linux__) && defined(__x86_64__)
#include <ucontext.h>

#include <cstdint>
#include <cstring>

namespace flashcore::emu {

/** General registers in the order of their machine-code numbers. */
constexpr int GENERAL_REGISTERS[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                       REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/** Where the ModRM byte is, and the bits that extend its fields (Intel SDM volume 2, chapter 2). */
struct OperandBytes {
  const uint8_t* modrm;
  int index_extension;  // REX.X
  int base_extension;  // REX.B
};

inline OperandBytes find_modrm(const uint8_t* code) {
  while (memchr("\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\x67\xf0", *code, 11)) ++code;
  if (*code == 0xc5) return {code + 3, 0, 0};
  if (*code == 0xc4) return {code + 4, !(code[1] >> 6 & 1), !(code[1] >> 5 & 1)};
  if (*code == 0x62) return {code + 5, !(code[1] >> 6 & 1), !(code[1] >> 5 & 1)};
  int rex = 0;
  if ((*code & 0xf0) == 0x40) rex = *code++;
  int opcode_bytes = 1;
  if (code[0] == 0x0f) opcode_bytes = code[1] == 0x38 || code[1] == 0x3a ? 3 : 2;
  return {code + opcode_bytes, rex >> 1 & 1, rex & 1};
}

/**
 * Address of the memory operand of the interrupted instruction. The scaling of EVEX's short displacements is ignored,
 * which makes an error below 16 KB.
 */
inline uint64_t effective_address(const ucontext_t* context) {
  const auto* registers = context->uc_mcontext.gregs;
  const auto value = [registers](int number) { return static_cast<uint64_t>(registers[GENERAL_REGISTERS[number]]); };
  const auto [modrm, index_extension, base_extension] =
      find_modrm(reinterpret_cast<const uint8_t*>(registers[REG_RIP]));
  const int mode = *modrm >> 6, rm = *modrm & 7;
  const uint8_t* displacement = modrm + 1;
  uint64_t address = 0;
  if (rm == 4) {
    const uint8_t sib = *displacement++;
    const int index = (sib >> 3 & 7) | index_extension << 3, base = sib & 7;
    if (index != 4) address += value(index) << (sib >> 6);
    if (base != 5 || mode != 0) address += value(base | base_extension << 3);
  } else {
    address += value(rm | base_extension << 3);
  }
  if (mode == 1) address += static_cast<int64_t>(static_cast<int8_t>(*displacement));
  int32_t wide = 0;
  memcpy(&wide, displacement, sizeof wide);
  if (mode == 2) address += static_cast<int64_t>(wide);
  return address;
}

/** True if bits 47 to 63 are all equal, as the processor requires of an address. */
inline bool is_canonical(uint64_t address) {
  return static_cast<int64_t>(address << 16) >> 16 == static_cast<int64_t>(address);
}

}  // namespace flashcore::emu
#endif
