#!/bin/sh
# Builds libfa3.so: functions fa3_fp16_64, fa3_bf16_64 and so on (forward.cu), by the head dimension of Q and K, and
# for head dimensions 64 and 128 fa3_backward_fp16_64 and so on (backward.cu).
#
#   rivals/flash_attention_3/build.sh FLASH_ATTENTION CUTLASS [OUT]
#
# In the environment, WIDTHS="64 128" builds only those of 64, 96, 128, 192 and 256 (V's is the same, and 128 for 192),
# and PASSES="forward" or "backward" only that of the two.
#
# FLASH_ATTENTION and CUTLASS: checkouts of Dao-AILab/flash-attention at 0251105a and of NVIDIA/cutlass at 7127592, the
# commit that it pins. Takes nvcc 12.8 or later and one to two minutes a function, three to eight for a backward pass;
# needs no GPU and no PyTorch.
set -eu
[ $# -ge 2 ] || { sed -n '2,12p' "$0"; exit 2; }
for needed in "$1/hopper/flash_fwd_launch_template.h" "$2/include/cutlass/cutlass.h"; do
  [ -f "$needed" ] || { echo "there is no $needed: give checkouts of flash-attention and cutlass, in this order" >&2; exit 2; }
done
here=$(dirname "$0")
out=${3:-libfa3.so}
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
# Disables the features that forward.cu does not call; otherwise each of them would be instantiated.
left_out="-DFLASHATTENTION_DISABLE_LOCAL -DFLASHATTENTION_DISABLE_APPENDKV -DFLASHATTENTION_DISABLE_VARLEN \
  -DFLASHATTENTION_DISABLE_PAGEDKV -DFLASHATTENTION_DISABLE_SPLIT -DFLASHATTENTION_DISABLE_SOFTCAP \
  -DFLASHATTENTION_DISABLE_FP8 -DFLASHATTENTION_DISABLE_SM8x"
compile() {
  # shellcheck disable=SC2086 # a list of flags
  nvcc -c -std=c++17 -O3 -use_fast_math -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr \
    --expt-extended-lambda -DNDEBUG -DCUTLASS_ENABLE_GDC_FOR_SM90 $left_out -Xcompiler -fPIC \
    -I"$flash/hopper" -I"$cutlass/include" "$@"
}
flash=$1 cutlass=$2
compile "$here/no_varlen.cu" -o "$objects/no_varlen.o"
for width in ${WIDTHS:-64 96 128 192 256}; do
  values=$([ "$width" = 192 ] && echo 128 || echo "$width")
  for dtype in fp16 bf16; do
    case $dtype in fp16) element=cutlass::half_t is_bf16=false ;; *) element=cutlass::bfloat16_t is_bf16=true ;; esac
    for pass in ${PASSES:-forward backward}; do
      case $pass-$width in
        forward-*) function=fa3_${dtype}_$width ;;
        backward-64 | backward-128) function=fa3_backward_${dtype}_$width ;;
        *) continue ;;
      esac
      echo "$function" >&2
      compile -DHEAD_DIM="$width" -DVALUE_DIM="$values" -DELEMENT=$element -DIS_BF16=$is_bf16 -DFUNCTION="$function" \
        -DFUNCTION_FLOATS="${function}_floats" "$here/$pass.cu" -o "$objects/$function.o"
    done
  done
done
nvcc -shared -arch=sm_90a -cudart static -o "$out" "$objects"/*.o
