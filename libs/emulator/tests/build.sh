# Sourced by tests/run.sh and tests/ptx.sh, which set CXX, BUILD and EMULATOR. Builds the library and kernel modules as
# described in README.md.
case $(uname -m) in aarch64|arm64) NATIVE=-mcpu=native ;; *) NATIVE=-march=native ;; esac
ARCH_FLAGS=${ARCH_FLAGS-$NATIVE}
GNU_ONLY=
if ! $CXX --version | grep -qi clang; then GNU_ONLY="-fno-gnu-unique -fno-semantic-interposition"; fi
KERNEL_FLAGS="-x c++ -std=c++17 -O3 $ARCH_FLAGS -g1 -gdwarf-4 -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast -fno-strict-aliasing -fno-exceptions $GNU_ONLY -Wall -Wno-attributes -Wno-unknown-pragmas -Wno-unused -DFLASHCORE_EMULATOR=1"
LIMIT="$EMULATOR/static_shared_limit.ld"
mkdir -p "$BUILD/modules"

# compile_cached <output> <argument…>: like $CXX -c. If FLASHCORE_LIBRARY_CACHE names a folder, objects already compiled
# from the same input are reused.
compile_cached() {
  output=$1
  shift
  if [ -z "$FLASHCORE_LIBRARY_CACHE" ]; then
    $CXX "$@" -c -o "$output"
    return
  fi
  # Leaves the build folder's name out of the preprocessor's output, because it differs each time.
  key=$({ $CXX --version; echo "$@"; $CXX "$@" -E; } | sed "s|$BUILD||g" | sha256sum | cut -d ' ' -f 1)
  kept="$FLASHCORE_LIBRARY_CACHE/objects/$key.o"
  if [ ! -f "$kept" ]; then
    mkdir -p "$FLASHCORE_LIBRARY_CACHE/objects"
    $CXX "$@" -c -o "$kept.$$" && mv "$kept.$$" "$kept"
  fi
  cp "$kept" "$output"
}

build_library() {
  compile_cached "$BUILD/library.o" -std=c++17 -O2 -Wall -Wextra -fPIC -pthread -fvisibility=hidden "$EMULATOR/library.cpp"
  $CXX -shared -pthread "$BUILD/library.o" -o "$BUILD/libcuda_emu.so" -ldl
}

# build_library_with_ptx <optimization>: builds the library with the PTX engine, compiling three units at a time.
build_library_with_ptx() {
  flags="-std=c++17 -Wall -Wextra -fPIC -pthread -fvisibility=hidden"
  vectors="$ARCH_FLAGS -fno-math-errno -fno-trapping-math -Wno-uninitialized"  # avoids g++ 12's warnings about its own avx512fintrin.h
  compile_cached "$BUILD/library.o" $flags -O1 -DFLASHCORE_PTX_ENGINE=1 "$EMULATOR/library.cpp" &
  first=$!
  compile_cached "$BUILD/arithmetic.o" $flags $1 $vectors "$EMULATOR/ptx/arithmetic.cpp" &
  second=$!
  compile_cached "$BUILD/engine.o" $flags $1 $vectors "$EMULATOR/ptx/engine.cpp"
  wait $first
  wait $second
  $CXX -shared -pthread "$BUILD/library.o" "$BUILD/engine.o" "$BUILD/arithmetic.o" -o "$BUILD/libcuda_emu.so" -ldl
}

# build_module <source> <name> <more flags> <linker script or nothing>
# The entries are those that the source's first comment names: // entries: a b c
build_module() {
  source=$1 name=$2 extra=$3 limit=$4
  entries=$(sed -n '/^\/\//!q; s|^// \(entries: \)\{0,1\}||p' "$source")
  copy="$BUILD/$name.cu"
  unit="$BUILD/$name.unit.cpp"
  { echo "#line 1 \"$(basename "$source")\""
    perl -0pe 's/\bextern\s+__shared__\s+([^;{}()]*?(?:\([^()]*\)[^;{}()]*?)?)\b(\w+)\s*\[\s*\]\s*;/FLASHCORE_DYNAMIC_SHARED($2, $1);/g' "$source"; } > "$copy"
  { echo '#include "flashcore_emulator.h"'
    for entry in $entries; do echo "FLASHCORE_EXPECT_ENTRY($entry)"; done
    echo "#include \"$copy\""
    for entry in $entries; do echo "FLASHCORE_ENTRY($entry)"; done; } > "$unit"
  compile_cached "$BUILD/modules/$name.o" $KERNEL_FLAGS $extra -I "$EMULATOR/include" -I "$EMULATOR/../../kernels" \
    -I "$(dirname "$source")" "$unit"
  link_module "$name" "$name" "$limit"
}

# link_module <object> <name> <linker script or nothing>: links an object that build_module has compiled.
link_module() {
  $CXX -shared -pthread "$BUILD/modules/$1.o" ${3:+"$3"} -o "$BUILD/modules/$2.so"
}

# build_test <name> <optimization>: builds <name>_test.cpp and links it with the library.
build_test() {
  compile_cached "$BUILD/$1.o" -std=c++17 $2 -Wall -Wextra $ARCH_FLAGS "$EMULATOR/tests/$1_test.cpp"
  $CXX "$BUILD/$1.o" -o "$BUILD/$1" -L "$BUILD" -lcuda_emu -pthread -Wl,-rpath,"$BUILD"
}
