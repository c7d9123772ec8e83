#!/bin/sh
# Builds the emulator with the PTX engine and runs its tests. If nvcc or clang can make PTX, it also runs the tests that
# both engines share. Prints a line per test, and fails if a test fails.
#   tests/ptx.sh [build folder]
# FRONT_END: nvcc, or clang (19, with the project's own headers, as on a host without a toolkit), or none, which leaves
# only the tests of PTX that is in the tree; by default the first that is installed. MODULES: a folder where an earlier
# run stored the kernels' PTX and the defined results. LIBRARY, CXX, ARCH_FLAGS, RUNNER: as in tests/run.sh; LIBRARY must
# have the PTX engine.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
BUILD=${1:-$(mktemp -d)}
# Reaches everything through a link, because in a folder with quotes in its name nvcc finds no headers and ptxas refuses
# the PTX.
mkdir -p "$BUILD"
ln -sfn "$(dirname "$(dirname "$EMULATOR")")" "$BUILD/checkout"
EMULATOR="$BUILD/checkout/libs/emulator"
HERE="$EMULATOR/tests"
CXX=${CXX:-c++}
. "$HERE/build.sh"
if [ -n "$LIBRARY" ]; then mkdir -p "$BUILD/modules"; ln -s "$LIBRARY" "$BUILD/libcuda_emu.so"; else build_library_with_ptx -O1; fi
cp "$HERE/kernels/divergence.ptx" "$HERE/kernels/hopper.ptx" "$BUILD/modules"
watched() { { echo "// flashcore: races"; cat "$BUILD/modules/$1.ptx"; } > "$BUILD/modules/$2.ptx"; }
watched hopper hopper_watched
tests="ptx hopper"
KERNELS="$EMULATOR/../../kernels"
CLANG=clang++-19
if [ -z "$FRONT_END" ] && command -v nvcc > "$BUILD/nvcc.txt"; then FRONT_END=nvcc; fi
if [ -z "$FRONT_END" ] && command -v $CLANG > "$BUILD/clang.txt"; then FRONT_END=clang; fi

# to_ptx <source> <options>; nvcc gets $ARCH
to_ptx() {
  source=$1
  shift
  made="$BUILD/modules/$(basename "$source" .cu).ptx"
  if [ -n "$MODULES" ]; then
    cp "$MODULES/$(basename "$made")" "$made"
    return
  fi
  if [ "$FRONT_END" = nvcc ]; then
    nvcc -ptx -lineinfo -O3 -std=c++17 -arch="${ARCH:-sm_89}" -I "$KERNELS" "$@" "$source" -o "$made"
  else  # the same options as in apps/runner/src/build/clang-unit.ts
    $CLANG -x cuda --cuda-device-only --cuda-gpu-arch=sm_89 -Xclang -target-feature -Xclang +ptx78 -S \
      --cuda-path=none -nocudainc -nocudalib -nostdlibinc -isystem "$EMULATOR/device_headers" \
      -isystem "$EMULATOR/include" -include cuda_runtime.h -std=c++17 -O3 -gline-tables-only -ffp-contract=fast \
      -fno-strict-aliasing -mllvm -inline-threshold=1000000 -Wno-pass-failed -I "$KERNELS" "$@" "$source" -o "$made"
  fi
}

if [ "${FRONT_END:-none}" != none ]; then
  for name in calls foreign orders warps matrices races memory volatile; do to_ptx "$HERE/kernels/$name.cu"; done
  watched races races_instrumented
  watched volatile volatile_watched
  watched orders orders_watched
  tests="$tests calls foreign orders warps matrices races memory"
fi
# These tests need nvcc's code: ncu's counters and the lines of faults depend on it.
if [ "$FRONT_END" = nvcc ]; then
  to_ptx "$HERE/probes/faulty.cu"
  to_ptx "$KERNELS/faulty/bank_conflict_32way/bank_conflict_32way.cu"
  to_ptx "$KERNELS/fa_tc_s512/fa_tc_s512.cu" -DCONFIG=1 -DREGISTER_LIMIT=0 -DBLOCK_Q=64 -DBLOCK_KV=64 \
    -DNUM_THREADS=128 -DSMEM_BYTES=24576
  to_ptx "$KERNELS/flashcore_v7/flashcore_v7.cu" -DBLOCK_Q=64 -DBLOCK_KV=64 -DNUM_THREADS=128 -DROW_STRIDE=72 \
    -DS_STRIDE=72 -DSMEM_BYTES=64512
  watched faulty faulty_watched
  for name in checked documented audited; do
    ARCH=sm_90a to_ptx "$HERE/kernels/$name.cu"
    watched $name ${name}_watched
    cp "$HERE/kernels/$name.cu" "$BUILD/modules"
  done
  tests="$tests counters probes/faulty checked"
fi

# Under qemu, the test of counters takes minutes, because it runs whole kernels.
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
# Only in the long run: compares each opcode with an H200's results and with its definition. The definitions take some
# seconds of Python, once for all libraries. Python loads the library, so the library must be built for this processor.
if [ "$FLASHCORE_TESTS" = all ] && [ -z "$RUNNER" ] && command -v python3 > "$BUILD/python3.txt"; then
  if python3 "$EMULATOR/conformance/answers.py" "$BUILD/libcuda_emu.so" \
    --definitions "${MODULES:-$BUILD/modules}/definitions.json" \
    --against "$EMULATOR/../../lab/results/h200-opcodes-2026-11-23/opcodes.json.xz" >&2; then echo "ok   opcodes"; else
    echo "FAIL opcodes"
    failed=1
  fi
fi
exit $failed
