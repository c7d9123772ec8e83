#!/bin/sh
# Builds only libcuda_emu.so, with the same warnings as the tests.
#   build.sh <folder>
# CXX: the compiler (default c++).
set -e
EMULATOR=$(cd "$(dirname "$0")" && pwd)
BUILD=$1
CXX=${CXX:-c++}
. "$EMULATOR/tests/build.sh"
build_library
