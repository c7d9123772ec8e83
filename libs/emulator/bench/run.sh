#!/bin/sh
# Prints the emulator's speed as CPU time of one core, which depends less on the machine's other load. `npm run engines`
# measures whole kernels.
#   bench/run.sh [build folder]
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
BUILD=${1:-$(mktemp -d)}
CXX=${CXX:-c++}
export CXX BUILD EMULATOR
. "$EMULATOR/tests/build.sh"
build_library
build_module "$HERE/primitives.cu" primitives "" ""
export FLASHCORE_TEST_MODULES="$BUILD/modules"
$CXX -std=c++17 -O2 $ARCH_FLAGS "$HERE/primitives.cpp" -o "$BUILD/primitives" -L "$BUILD" -lcuda_emu -pthread -Wl,-rpath,"$BUILD"
"$BUILD/primitives"
