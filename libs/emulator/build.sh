#!/bin/sh
# Builds libcuda_emu.so alone, with warnings as the tests have them.
#   build.sh <folder>
# CXX: the compiler (default c++).
set -e
EMULATOR=$(cd "$(dirname "$0")" && pwd)
BUILD=$1
CXX=${CXX:-c++}
. "$EMULATOR/tests/build.sh"
build_library
