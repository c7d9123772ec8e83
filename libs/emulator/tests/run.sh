#!/bin/sh
# Builds the emulator, the test kernels and the tests, and runs the tests. Prints a line per test, and fails if a test
# fails.
#   tests/run.sh [build folder]
# TESTS: names of tests; default: all. LIBRARY: a libcuda_emu.so that is already built. CXX: the compiler (default c++).
# ARCH_FLAGS: default -march=native (-mcpu=native on aarch64). RUNNER: the command that runs the tests,
# e.g. CXX=aarch64-linux-gnu-g++ ARCH_FLAGS=-march=armv8.2-a RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
BUILD=${1:-$(mktemp -d)}
CXX=${CXX:-c++}
TESTS=${TESTS:-conversions driver faults matrices memory races warps}
export CXX BUILD EMULATOR
. "$HERE/build.sh"
if [ -n "$LIBRARY" ]; then ln -sf "$LIBRARY" "$BUILD/libcuda_emu.so"; else build_library; fi
wanted() { case " $TESTS " in *" $1 "*) ;; *) return 1 ;; esac; }
for source in "$HERE"/kernels/*.cu; do
  name=$(basename "$source" .cu)
  case $name in
    calls | volatile) ;;  # tests/ptx.sh tests these
    static_shared_*) build_module "$source" "$name" "" "" ;;    # for the test of the driver's check of sizes
    memory) build_module "$source" "$name" "" "$LIMIT" ;;  # the driver test uses it too
    *) if wanted "$name"; then build_module "$source" "$name" "" "$LIMIT"; fi ;;
  esac
done
if wanted races; then build_module "$HERE/kernels/races.cu" races_instrumented -fsanitize=thread "$LIMIT"; fi
link_module static_shared_49152 accepted "$LIMIT"
if link_module static_shared_49153 refused "$LIMIT" 2> "$BUILD/refused.txt"; then
  echo "48 KB and 1 byte of static shared memory linked" >&2
  exit 1
fi
grep -q "uses too much shared data" "$BUILD/refused.txt"

failed=0
for name in $TESTS; do
  build_test "$name" -O1
  if FLASHCORE_TEST_MODULES="$BUILD/modules" $RUNNER "$BUILD/$name"; then echo "ok   $name"; else echo "FAIL $name"; failed=1; fi
done
exit $failed
