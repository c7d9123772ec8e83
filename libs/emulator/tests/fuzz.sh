#!/bin/sh
# Loads, lowers and runs PTX that was mutated at random, in an emulator with the address and undefined-behavior
# sanitizers, which takes two minutes to build. The corpus has one text per form of ../conformance, and the texts of
# tests/kernels.
#   tests/fuzz.sh <build folder> <first seed> <seeds>
# If the process dies, <build folder>/text.ptx has the text that it ran, with the seed in the first line.
set -e
HERE=$(cd "$(dirname "$0")" && pwd)
EMULATOR=$(dirname "$HERE")
BUILD=$1
CXX=${CXX:-c++}
case $(uname -m) in aarch64|arm64) NATIVE=-mcpu=native ;; *) NATIVE=-march=native ;; esac
SANITIZED="-std=c++17 -g1 -O1 -pthread -fsanitize=address,undefined -fno-sanitize-recover=all"
VECTORS="${ARCH_FLAGS-$NATIVE} -fno-math-errno -fno-trapping-math -Wno-uninitialized"
mkdir -p "$BUILD/corpus"
python3 "$EMULATOR/conformance/table.py" --apart "$BUILD/corpus"
cp "$HERE"/kernels/*.ptx "$BUILD/corpus"
$CXX $SANITIZED -DFLASHCORE_PTX_ENGINE=1 -c "$EMULATOR/library.cpp" -o "$BUILD/library.o"
$CXX $SANITIZED $VECTORS -c "$EMULATOR/ptx/arithmetic.cpp" -o "$BUILD/arithmetic.o"
$CXX $SANITIZED $VECTORS -c "$EMULATOR/ptx/engine.cpp" -o "$BUILD/engine.o"
$CXX $SANITIZED "$HERE/fuzz.cpp" "$BUILD/library.o" "$BUILD/arithmetic.o" "$BUILD/engine.o" -o "$BUILD/fuzz" -ldl
# Runs one block at a time, so that a seed gives the same run on every machine.
ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 FLASHCORE_EMULATOR_THREADS=1 \
  "$BUILD/fuzz" "$BUILD/corpus" "$2" "$3" "$BUILD/text.ptx"
