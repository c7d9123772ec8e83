#!/bin/sh
# Prints the emulator's speed (CPU time of one core, so that a busy machine matters less), then flashcore_v6 over the parity cases.
#   bench/run.sh [build folder]
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
REPOSITORY=$(cd "$EMULATOR/../.." && pwd)
BUILD=${1:-$(mktemp -d)}
CXX=${CXX:-c++}
export CXX BUILD EMULATOR
. "$EMULATOR/tests/build.sh"
build_library
build_module "$HERE/primitives.cu" primitives "" ""
build_module "$REPOSITORY/kernels/flashcore_v6/flashcore_v6.cu" flashcore_v6 "" "" flashcore_v6
export FLASHCORE_TEST_MODULES="$BUILD/modules"
for program in primitives attention; do
  $CXX -std=c++17 -O2 $ARCH_FLAGS "$HERE/$program.cpp" -o "$BUILD/$program" -L "$BUILD" -lcuda_emu -pthread -Wl,-rpath,"$BUILD"
done
"$BUILD/primitives"
"$BUILD/attention" flashcore_v6 flashcore_v6 64 128 73728
