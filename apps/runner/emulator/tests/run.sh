#!/bin/sh
# Builds the emulator, the test kernels and the tests, and runs the tests. Prints one line a test; fails if one does.
#   tests/run.sh [build folder]
# CXX: the compiler (default c++). ARCH_FLAGS: default -march=native (-mcpu=native on aarch64). RUNNER: what runs the tests, e.g. qemu-aarch64 -L /usr/aarch64-linux-gnu.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
BUILD=${1:-$(mktemp -d)}
CXX=${CXX:-c++}
case $(uname -m) in aarch64|arm64) NATIVE=-mcpu=native ;; *) NATIVE=-march=native ;; esac
ARCH_FLAGS=${ARCH_FLAGS-$NATIVE}
mkdir -p "$BUILD"
GNU_ONLY=
LIMIT="$EMULATOR/static_shared_limit.ld"
if ! $CXX --version | grep -qi clang; then GNU_ONLY="-fno-gnu-unique -fno-semantic-interposition"; fi
KERNEL_FLAGS="-x c++ -std=c++17 -O3 $ARCH_FLAGS -g1 -fPIC -fno-math-errno -fno-trapping-math -ffp-contract=fast -fno-strict-aliasing -fno-exceptions $GNU_ONLY -Wall -Wno-attributes -Wno-unknown-pragmas -Wno-unused -DFLASHCORE_EMULATOR=1 -I $EMULATOR/include -I $EMULATOR/../../../kernels"
export CXX BUILD EMULATOR KERNEL_FLAGS LIMIT

# The library, one object a source, two at a time.
ls "$EMULATOR"/exec/*.cpp "$EMULATOR"/driver/*.cpp | xargs -P 2 -I {} sh -c \
  '$CXX -std=c++17 -O2 -Wall -Wextra -fPIC -pthread -fvisibility=hidden -c {} -o "$BUILD/$(basename {} .cpp).o"'
$CXX -shared -pthread -o "$BUILD/libcuda_emu.so" "$BUILD"/*.o -ldl

# A test kernel names its entries in its first line: // entries: a b c
build_module() {
  source=$1 name=$2 extra=$3
  unit="$BUILD/$name.unit.cpp"
  copy="$BUILD/$name.cu"
  { echo "#line 1 \"$(basename "$source")\""; perl -0pe 's/\bextern\s+__shared__\s+([^;{}()]*?(?:\([^()]*\)[^;{}()]*?)?)\b(\w+)\s*\[\s*\]\s*;/FLASHCORE_DYNAMIC_SHARED($2, $1);/g' "$source"; } > "$copy"
  entries=$(sed -n '1s|^// entries: ||p' "$source")
  { echo '#include "flashcore_emulator.h"'
    for entry in $entries; do echo "FLASHCORE_EXPECT_ENTRY($entry)"; done
    echo "#include \"$copy\""
    for entry in $entries; do echo "FLASHCORE_ENTRY($entry)"; done; } > "$unit"
  mkdir -p "$BUILD/modules"
  $CXX $KERNEL_FLAGS $extra -c "$unit" -o "$BUILD/modules/$name.o"
  $CXX -shared -pthread "$BUILD/modules/$name.o" ${4-$LIMIT} -o "$BUILD/modules/$name.so"
}
for source in "$HERE"/kernels/*.cu; do
  name=$(basename "$source" .cu)
  case $name in
    static_shared_*) build_module "$source" "$name" "" "" ;;
    *) build_module "$source" "$name" "" ;;
  esac
done
build_module "$HERE/kernels/races.cu" races_instrumented -fsanitize=thread
if build_module "$HERE/kernels/static_shared_49153.cu" refused "" 2> "$BUILD/refused.txt"; then echo "48 KB + 1 of static shared memory linked" >&2; exit 1; fi
grep -q "uses too much shared data" "$BUILD/refused.txt"

failed=0
for source in "$HERE"/*_test.cpp; do
  name=$(basename "$source" .cpp)
  $CXX -std=c++17 -O2 -Wall -Wextra $ARCH_FLAGS "$source" -o "$BUILD/$name" -L "$BUILD" -lcuda_emu -pthread -Wl,-rpath,"$BUILD"
  if FLASHCORE_TEST_MODULES="$BUILD/modules" $RUNNER "$BUILD/$name"; then echo "ok   $name"; else echo "FAIL $name"; failed=1; fi
done
exit $failed
