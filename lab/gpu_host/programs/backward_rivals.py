#!/usr/bin/env python3
"""Times backward passes of attention against those of PyTorch's SDPA backends, and against that of FlashAttention-3 if
it was built.

  node --experimental-transform-types lab/measure/launch-plans.ts --seed 7 --shapes 40 examples/kernels/backward_mma > plans.json
  python3 lab/gpu_host/programs/backward_rivals.py plans.json [--fa3 libfa3_backward.so] [--out FILE]
  python3 lab/gpu_host/programs/backward_rivals.py --summary FILE…

Each line of the output is a JSON object with a shape and, for each subject, the median and the 2.5th and 97.5th
percentile in microseconds, timed as in attention_rivals.py. It also has the largest and mean absolute difference of
each subject's dQ, dK and dV from those of attention in fp32, if the latter fits in memory. All subjects get the same Q,
K, V, O, dO and LSE. A subject's time includes clearing the sums that it adds up.
"""

import ctypes

import attention_rivals
from attention_rivals import MOST_SCORES, RIVALS, ROUNDS, fields_of, summarise_times, workspaces_of

GRADIENTS = ["dQ", "dK", "dV"]


def load_torch():
    """Imports PyTorch into this file's names. The summary does not need it, so it is not imported at the start."""
    global torch, functional, SDPBackend, sdpa_kernel, graph_timing
    attention_rivals.load_torch()
    import graph_timing
    import torch
    import torch.nn.functional as functional
    from torch.nn.attention import SDPBackend, sdpa_kernel


def own_call(kernel, launches, workspaces, tensors):
    """A call of one of our kernels, with the kernel's workspaces."""
    spaces = workspaces_of(workspaces)
    cleared = [spaces[f"workspace {each['name']}"] for each in workspaces if "initial" in each]
    run = kernel.prepare(launches, tensors | spaces)

    def call(_number=0):
        for each in cleared:
            each.zero_()
        run()
        return spaces

    return call


def flash_calls(given, fields):
    """The backward passes behind PyTorch's SDPA, called directly because a graph cannot capture autograd's calls."""
    q, k, v, dO = (given[name] for name in ("Q", "K", "V", "dO"))
    aten = torch.ops.aten

    def flash():
        if fields.H != fields.Hkv:
            raise RuntimeError("the flash backend repeats shared heads")
        o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_flash_attention(
            q, k, v, 0.0, fields.causal
        )
        return lambda: aten._scaled_dot_product_flash_attention_backward(
            dO, q, k, v, o, lse, cum_q, cum_k, max_q, max_k, 0.0, fields.causal, seed, offset
        )

    def cudnn():
        o, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, fields.causal, False
        )
        return lambda: aten._scaled_dot_product_cudnn_attention_backward(
            *(dO, q, k, v, o, lse, seed, offset, None, cum_q, cum_k, max_q, max_k, 0.0, fields.causal)
        )

    return {"flash": flash, "cudnn": cudnn}


def fa3_call(library, name, tensors, fields):
    sizes = (fields.B, fields.H, fields.Hkv, fields.S, fields.Skv)
    function, floats = getattr(library, name), getattr(library, f"{name}_floats")
    floats.restype = ctypes.c_int64
    scratch = torch.empty(floats(*sizes), device="cuda")
    given = [tensors[each] for each in ("Q", "K", "V", "O", "dO", "LSE", *GRADIENTS)]
    pointers = [ctypes.c_void_p(each.data_ptr()) for each in (*given, scratch)]
    multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count
    scale = ctypes.c_float(fields.D**-0.5)

    def call(_number=0):
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        if function(*pointers, *sizes, int(fields.causal), scale, multiprocessors, stream):
            raise RuntimeError(f"{name} failed")
        return scratch

    return call


def wanted_gradients(given, fields):
    """The gradients of attention in fp32, computed by autograd."""
    q, k, v = (given[name].float().requires_grad_() for name in ("Q", "K", "V"))
    group = fields.H // fields.Hkv
    with sdpa_kernel([SDPBackend.MATH]):
        o = functional.scaled_dot_product_attention(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=fields.causal
        )
    return torch.autograd.grad(o, (q, k, v), given["dO"].float())


def measure(item, kernels, library):
    fields = fields_of(item["shape"])
    B, H, S, D, Hkv, Skv, *_ = fields
    dtype = torch.bfloat16 if item["dtype"] == "bf16" else torch.float16
    q, dO = (torch.randn(B, H, S, D, device="cuda", dtype=dtype) for _ in range(2))
    k, v = (torch.randn(B, Hkv, Skv, D, device="cuda", dtype=dtype) for _ in range(2))
    o, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
        *(q, *(each.repeat_interleave(H // Hkv, 1) for each in (k, v))), 0.0, fields.causal
    )
    given = {"Q": q, "K": k, "V": v, "O": o.contiguous(), "dO": dO, "LSE": lse.contiguous()}
    outputs, subjects, missing = {}, {}, {}

    def unwritten():
        return {name: torch.full_like(like, float("nan")) for name, like in zip(GRADIENTS, (q, k, v), strict=True)}

    for name, launches in item["plans"].items():
        outputs[name] = unwritten()
        subjects[name] = own_call(
            *(kernels[name, item["dtype"]], launches, item["workspaces"][name], given | outputs[name])
        )
    if library is not None:
        made = unwritten()
        try:
            subjects["fa3"] = fa3_call(library, f"fa3_backward_{item['dtype']}_{D}", given | made, fields)
            outputs["fa3"] = made
        except AttributeError:
            missing["fa3"] = "the library was built without this dtype or head dimension"
    for name, prepare in flash_calls(given, fields).items():
        try:
            call = prepare()
            outputs[name] = dict(zip(GRADIENTS, call()[:3], strict=True))
            subjects[name] = lambda _number=0, call=call: call()
        except RuntimeError as error:
            missing[name] = graph_timing.first_line(error)
    for name in {*item["plans"], "fa3"} & subjects.keys():
        subjects[name]()
    torch.cuda.synchronize()
    differences = {}
    if B * H * S * Skv <= MOST_SCORES // 2:
        wanted = dict(zip(GRADIENTS, wanted_gradients(given, fields), strict=True))
        for name, made in outputs.items():
            off = {each: (made[each].float() - wanted[each]).abs_() for each in GRADIENTS}
            differences[name] = {each: [off[each].max().item(), off[each].mean().item()] for each in GRADIENTS}
        del wanted, off
    figures, refused = graph_timing.in_turns(subjects, ROUNDS)
    # Five products of 2 S Skv D operations per head. A causal mask leaves about half of them.
    flops = 10 * B * H * S * Skv * D * (0.5 if fields.causal and S == Skv else 1)
    return {
        "shape": item["shape"],
        "dtype": item["dtype"],
        "us": figures,
        "tflops": {name: round(flops / us[0] / 1e6, 1) for name, us in figures.items()},
        "missing": missing | refused,
        "differences": differences,
    }


def summarise(paths):
    lines, own = summarise_times(paths)
    ratios = [(each, *mean_ratio(line, own, each), line) for line in lines for each in GRADIENTS if line["differences"]]
    each, ratio, rival, line = max(ratios, key=lambda row: row[1])
    print(
        f"\nOf {len(ratios)} gradients compared with fp32's, {own}'s mean difference is at most {ratio:.3f} times the"
        f" smallest of its rivals', {rival}'s: {each} at {line['shape']} {line['dtype']}."
    )


def mean_ratio(line, own, gradient):
    means = {name: made[gradient][1] for name, made in line["differences"].items()}
    rival = min(means.keys() & RIVALS, key=lambda name: means[name])
    return means[own] / means[rival], rival


if __name__ == "__main__":
    attention_rivals.main(__doc__, load_torch, measure, summarise)
