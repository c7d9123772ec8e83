// Registers a module's entries for cuModuleGetFunction; argument types are deduced from the kernel itself.
#pragma once
#include <cstring>
#include <type_traits>
#include <utility>

#include "abi.h"

namespace flashcore::emu {

inline Module& this_module();

struct NoSuchEntry {};

template <class... Arguments>
struct Signature {
  static constexpr unsigned COUNT = sizeof...(Arguments);
  struct Layout {
    unsigned sizes[COUNT + 1] = {};
    unsigned offsets[COUNT + 1] = {};
    unsigned total = 0;
    constexpr Layout() {
      constexpr unsigned size_of[] = {unsigned(sizeof(Arguments))..., 0};
      constexpr unsigned align_of[] = {unsigned(alignof(Arguments))..., 1};
      for (unsigned i = 0; i < COUNT; ++i) {
        total = (total + align_of[i] - 1) / align_of[i] * align_of[i];
        sizes[i] = size_of[i];
        offsets[i] = total;
        total += size_of[i];
      }
    }
  };
  static inline const Layout layout{};

  template <size_t... I>
  static void call(void (*function)(Arguments...), const char* packed, std::index_sequence<I...>) {
    function(
        *reinterpret_cast<const std::remove_cv_t<std::remove_reference_t<Arguments>>*>(packed + layout.offsets[I])...);
  }
  static void invoke(void (*function)(), const char* packed) {
    call(reinterpret_cast<void (*)(Arguments...)>(function), packed, std::index_sequence_for<Arguments...>{});
  }
};

template <class... Arguments>
int register_entry(Entry& entry, const char* name, void (*function)(Arguments...), int) {
  using S = Signature<Arguments...>;
  entry = Entry{name,
                S::COUNT,
                S::layout.sizes,
                S::layout.offsets,
                S::layout.total,
                reinterpret_cast<void (*)()>(function),
                &S::invoke,
                this_module().entries};
  this_module().entries = &entry;
  return 1;
}

// The compiler chooses this overload if the source has no such kernel, because then only the placeholder of
// FLASHCORE_EXPECT_ENTRY has the name.
inline int register_entry(Entry&, const char*, NoSuchEntry (*)(NoSuchEntry*), long) { return 0; }

}  // namespace flashcore::emu

/** Goes before the kernel's source. Makes cuModuleGetFunction report a missing entry (NOT_FOUND), as on a GPU. */
#define FLASHCORE_EXPECT_ENTRY(NAME) ::flashcore::emu::NoSuchEntry NAME(::flashcore::emu::NoSuchEntry*);

/** Goes after the kernel's source, once per entry. */
#define FLASHCORE_ENTRY(NAME)                                                                                        \
  namespace {                                                                                                        \
  ::flashcore::emu::Entry flashcore_entry_##NAME;                                                                    \
  const int flashcore_registered_##NAME = ::flashcore::emu::register_entry(flashcore_entry_##NAME, #NAME, &NAME, 0); \
  }
