#!/bin/sh
# Runs tests/run.sh and tests/ptx.sh with every installed compiler: g++, clang++, and g++ for aarch64 under qemu-user.
# `npx nx compilers emulator` starts it. Each compiler takes minutes.
HERE=$(cd "$(dirname "$0")" && pwd)
failed=0
with() {
  echo "== $1"
  shift
  env "$@" sh "$HERE/run.sh" || failed=1
  env "$@" sh "$HERE/ptx.sh" || failed=1
}
if command -v g++ >/dev/null; then with g++ CXX=g++; else echo "-- g++ is not installed"; fi
if command -v g++ >/dev/null && [ "$(uname -m)" = x86_64 ]; then
  # The builds that a runner makes for older processors (apps/runner/src/build/vector-path.ts).
  with "g++ for AVX2" CXX=g++ ARCH_FLAGS=-march=x86-64-v3
  with "g++ for any x86-64" CXX=g++ ARCH_FLAGS=-march=x86-64
fi
if command -v clang++ >/dev/null; then with clang++ CXX=clang++; else echo "-- clang++ is not installed"; fi
if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then
  with "aarch64-linux-gnu-g++, qemu-aarch64" CXX=aarch64-linux-gnu-g++ ARCH_FLAGS=-march=armv8.2-a RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
else
  echo "-- aarch64-linux-gnu-g++ or qemu-aarch64 is not installed"
fi
exit $failed
