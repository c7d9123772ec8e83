#!/bin/sh
# Builds the emulator with the PTX engine and runs its tests; where there is an nvcc, also those tests of the fibres
# that are the same for both, on its PTX. Prints one line a test; fails if one does.
#   tests/ptx.sh [build folder]
# CXX, ARCH_FLAGS, RUNNER: as tests/run.sh.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
BUILD=${1:-$(mktemp -d)}
CXX=${CXX:-c++}
. "$HERE/build.sh"
build_library_with_ptx -O1
cp "$HERE/kernels/divergence.ptx" "$BUILD/modules"
tests=ptx
if command -v nvcc > "$BUILD/nvcc.txt"; then
  tests="ptx warps matrices memory races"
  for name in warps matrices memory races; do
    nvcc -ptx -lineinfo -O3 -std=c++17 -arch=sm_89 -I "$EMULATOR/../../kernels" "$HERE/kernels/$name.cu" \
      -o "$BUILD/modules/$name.ptx"
  done
  { echo "// flashcore: races"; cat "$BUILD/modules/races.ptx"; } > "$BUILD/modules/races_instrumented.ptx"
fi

failed=0
for name in $tests; do
  $CXX -std=c++17 -O1 -Wall -Wextra $ARCH_FLAGS "$HERE/${name}_test.cpp" -o "$BUILD/$name" -L "$BUILD" -lcuda_emu \
    -pthread -Wl,-rpath,"$BUILD"
  if FLASHCORE_TEST_MODULES="$BUILD/modules" $RUNNER "$BUILD/$name"; then echo "ok   $name"; else
    echo "FAIL $name"
    failed=1
  fi
done
exit $failed
