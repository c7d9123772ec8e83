#!/bin/sh
# Builds flash_attention_3.so: functions fa3_fp16_64, fa3_bf16_64 and so on (forward.cu), by the head dimension of Q and
# K, fa3_decode_fp16_64 and so on for 64, 128 and 256 (decode.cu), fa3_paged_fp16_64 and so on for the same (paged.cu),
# and fa3_backward_fp16_64 and so on for 64 and 128 (backward.cu). Beside it, a record in JSON says from which commits
# and with which flags: fa-tui bench --rivals shows them, and calls no object without its record.
#
#   rivals/flash_attention_3/build.sh FLASH_ATTENTION CUTLASS [OUT]
#
# OUT: rivals/built/flash_attention_3.so, or that name in $FLASHCORE_RIVALS, where runners look.
# In the environment, WIDTHS="64 128" builds only those of 64, 96, 128, 192 and 256 (V's is the same, and 128 for 192),
# DTYPES="fp16" or "bf16" only that of the two, PASSES="forward" some of forward, decode, paged and backward. JOBS: how
# many compile at once, 1. OBJECTS: a folder whose object files are kept and not compiled again.
#
# FLASH_ATTENTION and CUTLASS: checkouts of Dao-AILab/flash-attention at 0251105a and of NVIDIA/cutlass at 7127592, the
# commit that it pins; for copies without .git, FLASH_COMMIT and CUTLASS_COMMIT say which. Takes nvcc 12.8 or later and
# one to two minutes a function, three to eight for a backward pass; needs no GPU and no PyTorch.
set -eu
[ $# -ge 2 ] || { sed -n '2,17p' "$0"; exit 2; }
for needed in "$1/hopper/flash_fwd_launch_template.h" "$2/include/cutlass/cutlass.h"; do
  [ -f "$needed" ] || { echo "there is no $needed: give checkouts of flash-attention and cutlass, in this order" >&2; exit 2; }
done
here=$(dirname "$0")
out=${3:-${FLASHCORE_RIVALS:-$here/../built}/flash_attention_3.so}
mkdir -p "$(dirname "$out")"
if [ -n "${OBJECTS:-}" ]; then
  objects=$OBJECTS
  mkdir -p "$objects"
  rm -f "$objects/failed"
else
  objects=$(mktemp -d)
  trap 'rm -rf "$objects"' EXIT
fi
# Disables the features that forward.cu does not use. Otherwise the compiler would instantiate each of them.
left_out="-DFLASHATTENTION_DISABLE_LOCAL -DFLASHATTENTION_DISABLE_APPENDKV -DFLASHATTENTION_DISABLE_VARLEN \
  -DFLASHATTENTION_DISABLE_PAGEDKV -DFLASHATTENTION_DISABLE_SPLIT -DFLASHATTENTION_DISABLE_SOFTCAP \
  -DFLASHATTENTION_DISABLE_FP8 -DFLASHATTENTION_DISABLE_SM8x"
flags="-std=c++17 -O3 -use_fast_math -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr \
  --expt-extended-lambda -DNDEBUG -DCUTLASS_ENABLE_GDC_FOR_SM90 -Xfatbin=-compress-all $left_out -Xcompiler -fPIC"
compile() {
  # shellcheck disable=SC2086 # a list of flags
  nvcc -c $flags -I"$flash/hopper" -I"$cutlass/include" "$@"
}
# The commit of a checkout; of a folder inside another checkout it would be the outer one's.
commit_of() {
  if [ "$(git -C "$1" rev-parse --show-toplevel 2>/dev/null)" = "$(cd "$1" && pwd -P)" ]; then
    echo "$(git -C "$1" rev-parse HEAD)$([ -z "$(git -C "$1" status --porcelain)" ] || echo -dirty)"
  else
    echo "$2"
  fi
}
flash=$1 cutlass=$2
passes=${PASSES:-forward decode paged backward}
rm -f "$objects/prepare.o" "$objects/no_varlen.o"
case $passes in
  *paged*) compile "$flash/hopper/flash_prepare_scheduler.cu" -o "$objects/prepare.o" ;;
  *) compile "$here/no_varlen.cu" -o "$objects/no_varlen.o" ;;
esac
running=0
for width in ${WIDTHS:-64 96 128 192 256}; do
  values=$([ "$width" = 192 ] && echo 128 || echo "$width")
  for dtype in ${DTYPES:-fp16 bf16}; do
    case $dtype in fp16) element=cutlass::half_t is_bf16=false ;; *) element=cutlass::bfloat16_t is_bf16=true ;; esac
    for pass in $passes; do
      case $pass-$width in
        forward-*) function=fa3_${dtype}_$width ;;
        decode-64 | decode-128 | decode-256) function=fa3_decode_${dtype}_$width ;;
        paged-64 | paged-128 | paged-256) function=fa3_paged_${dtype}_$width ;;
        backward-64 | backward-128) function=fa3_backward_${dtype}_$width ;;
        *) continue ;;
      esac
      [ ! -f "$objects/$function.o" ] || continue
      echo "$function" >&2
      compile -DHEAD_DIM="$width" -DVALUE_DIM="$values" -DELEMENT=$element -DIS_BF16=$is_bf16 -DFUNCTION="$function" \
        -DFUNCTION_FLOATS="${function}_floats" -DFUNCTION_PLAN="${function}_plan" "$here/$pass.cu" \
        -o "$objects/$function.o" || : >"$objects/failed" &
      running=$((running + 1))
      [ $((running % ${JOBS:-1})) -ne 0 ] || wait
    done
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
    "flash-attention": "$(commit_of "$flash" "${FLASH_COMMIT:-unknown commit}")",
    "cutlass": "$(commit_of "$cutlass" "${CUTLASS_COMMIT:-unknown commit}")"
  },
  "nvcc": "$(nvcc --version | sed -n 's/.*, V//p')",
  "flags": "$(echo "$flags" | tr -s ' ')",
  "sha256": "$(sha256sum "$out" | cut -d ' ' -f 1)"
}
RECORD
echo "$out" >&2
