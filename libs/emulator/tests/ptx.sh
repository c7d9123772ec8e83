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
cp "$HERE/kernels/divergence.ptx" "$HERE/kernels/hopper.ptx" "$BUILD/modules"
watched() { { echo "// flashcore: races"; cat "$BUILD/modules/$1.ptx"; } > "$BUILD/modules/$2.ptx"; }
watched hopper hopper_watched
tests="ptx hopper"
if command -v nvcc > "$BUILD/nvcc.txt"; then
  tests="ptx hopper calls warps matrices memory races counters probes/faulty"
  KERNELS="$EMULATOR/../../kernels"
  # to_ptx <source> <options>
  to_ptx() {
    source=$1
    shift
    nvcc -ptx -lineinfo -O3 -std=c++17 -arch=sm_89 -I "$KERNELS" "$@" "$source" \
      -o "$BUILD/modules/$(basename "$source" .cu).ptx"
  }
  for name in calls warps matrices memory races; do to_ptx "$HERE/kernels/$name.cu"; done
  to_ptx "$HERE/probes/faulty.cu"
  to_ptx "$KERNELS/faulty/bank_conflict_32way/bank_conflict_32way.cu"
  to_ptx "$KERNELS/fa_tc_s512/fa_tc_s512.cu" -DCONFIG=1 -DREGISTER_LIMIT=0 -DBLOCK_Q=64 -DBLOCK_KV=64 \
    -DNUM_THREADS=128 -DSMEM_BYTES=24576
  to_ptx "$KERNELS/flashcore_v7/flashcore_v7.cu" -DBLOCK_Q=64 -DBLOCK_KV=64 -DNUM_THREADS=128 -DROW_STRIDE=72 \
    -DS_STRIDE=72 -DSMEM_BYTES=64512
  watched races races_instrumented
  watched faulty faulty_watched
fi

# Counting whole kernels takes minutes where another processor is imitated.
if [ -n "$RUNNER" ]; then tests=$(echo "$tests" | sed "s/ counters//"); fi

failed=0
mkdir -p "$BUILD/probes"
for name in $tests; do
  build_test "$name" -O1
  if FLASHCORE_TEST_MODULES="$BUILD/modules" $RUNNER "$BUILD/$name"; then echo "ok   $name"; else
    echo "FAIL $name"
    failed=1
  fi
done
# What an H200 answers; in the long run of the tests also each form's definition, which takes some seconds of Python.
# Python loads the library itself, so it has to be this processor's.
if [ -z "$RUNNER" ] && command -v python3 > "$BUILD/python3.txt"; then
  definitions=
  if [ "$FLASHCORE_TESTS" = all ]; then definitions=--definitions; fi
  if python3 "$EMULATOR/conformance/answers.py" "$BUILD/libcuda_emu.so" $definitions \
    --against "$EMULATOR/../../docs/results/h200-opcodes-2026-11-22/opcodes.json" >&2; then echo "ok   opcodes"; else
    echo "FAIL opcodes"
    failed=1
  fi
fi
exit $failed
