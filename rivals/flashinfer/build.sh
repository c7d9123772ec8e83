#!/bin/sh
# Builds flashinfer.so: functions flashinfer_decode_bf16_128 and so on, by dtype and head dimension (decode.cu),
# flashinfer_tensor_cores_bf16_128 and so on (tensor_cores.cu), and flashinfer_mla_bf16 and _fp16 (mla.cu). Beside it, a
# record in JSON says from which commits and with which flags: fa-tui bench --rivals shows them, and calls no object
# without its record.
#
#   rivals/flashinfer/build.sh FLASHINFER CUTLASS CCCL [OUT]
#
# OUT: rivals/built/flashinfer.so, or that name in $FLASHCORE_RIVALS, where runners look.
# In the environment, WIDTHS="64 128" builds only those of 64, 128 and 256, DTYPES="fp16" or "bf16" only that of the
# two, PASSES="decode" some of decode, tensor_cores and mla. JOBS: how many compile at once, 1. OBJECTS: a folder whose
# object files are kept and not compiled again.
#
# FLASHINFER, CUTLASS and CCCL: checkouts of flashinfer-ai/flashinfer at fb28d724, and of NVIDIA/cutlass at b46b16d0 and
# NVIDIA/cccl at 87686768, the commits that it pins; for copies without .git, FLASHINFER_COMMIT, CUTLASS_COMMIT and
# CCCL_COMMIT say which. Takes nvcc 12.8 or later and a minute or two a function; needs no GPU and no PyTorch.
set -eu
[ $# -ge 3 ] || { sed -n '2,18p' "$0"; exit 2; }
for needed in "$1/include/flashinfer/attention/decode.cuh" "$2/include/cutlass/cutlass.h" \
  "$3/libcudacxx/include/cuda/cmath"; do
  [ -f "$needed" ] || { echo "there is no $needed: give flashinfer, cutlass and cccl, in this order" >&2; exit 2; }
done
here=$(dirname "$0")
out=${4:-${FLASHCORE_RIVALS:-$here/../built}/flashinfer.so}
mkdir -p "$(dirname "$out")"
if [ -n "${OBJECTS:-}" ]; then
  objects=$OBJECTS
  mkdir -p "$objects"
  rm -f "$objects/failed"
else
  objects=$(mktemp -d)
  trap 'rm -rf "$objects"' EXIT
fi
# FlashInfer's own flags for Hopper, of those that its 16-bit kernels depend on.
flags="-std=c++17 -O3 -use_fast_math -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr \
  -DCUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED -DFLASHINFER_ENABLE_F16 -DFLASHINFER_ENABLE_BF16 \
  -DFLASHINFER_ENABLE_FP8_E4M3 -DFLASHINFER_ENABLE_FP8_E5M2 -DFLASHINFER_ENABLE_FP8_E8M0 \
  -DFLASHINFER_ENABLE_FP4_E2M1 -DNDEBUG -Xfatbin=-compress-all -Xcompiler -fPIC"
compile() {
  # shellcheck disable=SC2086 # a list of flags
  nvcc -c $flags -I"$flashinfer/include" -I"$cutlass/include" -I"$cccl/cub" -I"$cccl/libcudacxx/include" \
    -I"$cccl/thrust" "$@"
}
# The commit of a checkout; of a folder inside another checkout it would be the outer one's.
commit_of() {
  if [ "$(git -C "$1" rev-parse --show-toplevel 2>/dev/null)" = "$(cd "$1" && pwd -P)" ]; then
    echo "$(git -C "$1" rev-parse HEAD)$([ -z "$(git -C "$1" status --porcelain)" ] || echo -dirty)"
  else
    echo "$2"
  fi
}
flashinfer=$1 cutlass=$2 cccl=$3
[ -f "$objects/message.o" ] || compile "$here/message.cu" -o "$objects/message.o"
running=0
build() { # SOURCE FUNCTION WIDTH
  [ ! -f "$objects/$2.o" ] || return 0
  echo "$2" >&2
  compile -DWIDTH="$3" -DELEMENT=$element -DFUNCTION="$2" -DFUNCTION_BYTES="${2}_bytes" -DFUNCTION_PLAN="${2}_plan" \
    "$here/$1.cu" -o "$objects/$2.o" || : >"$objects/failed" &
  running=$((running + 1))
  [ $((running % ${JOBS:-1})) -ne 0 ] || wait
}
for dtype in ${DTYPES:-fp16 bf16}; do
  case $dtype in fp16) element=half ;; *) element=nv_bfloat16 ;; esac
  for pass in ${PASSES:-decode tensor_cores mla}; do
    case $pass in
      mla) build mla flashinfer_mla_"$dtype" 512 ;;
      *) for width in ${WIDTHS:-64 128 256}; do build "$pass" "flashinfer_${pass}_${dtype}_$width" "$width"; done ;;
    esac
  done
done
wait
[ ! -f "$objects/failed" ] || { echo "$out was not built: a compiler above failed" >&2; exit 1; }
nvcc -shared -arch=sm_90a -cudart static -o "$out" "$objects"/*.o
# abi: ABI of tools/rivals.py, the version of the functions' arguments.
cat >"$out.json" <<RECORD
{
  "abi": 1,
  "commits": {
    "flashinfer": "$(commit_of "$flashinfer" "${FLASHINFER_COMMIT:-unknown commit}")",
    "cutlass": "$(commit_of "$cutlass" "${CUTLASS_COMMIT:-unknown commit}")",
    "cccl": "$(commit_of "$cccl" "${CCCL_COMMIT:-unknown commit}")"
  },
  "nvcc": "$(nvcc --version | sed -n 's/.*, V//p')",
  "flags": "$(echo "$flags" | tr -s ' ')",
  "sha256": "$(sha256sum "$out" | cut -d ' ' -f 1)"
}
RECORD
echo "$out" >&2
