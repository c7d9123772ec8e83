"""Checks exports of `fa-tui export --torch` on this GPU: host time per eager call, results and gradients compared with
SDPA's, training of a transformer, and decoding under torch.compile and in a CUDA graph.

  python3 check_signatures.py FOLDER EXAMPLES OUT [PART…]

FOLDER has the exported files fp16.py and bf16.py of one attention kernel, the same kernel with a backward kernel as
fp16_pair.py and bf16_pair.py, variants whose tensors are [B, S, H, D] in memory as fp16_bshd.py and bf16_bshd_pair.py,
and decode.py, paged.py and varlen.py. EXAMPLES is examples/pytorch. Without a PART all parts run. OUT is rewritten
after each part: { device, parts: { NAME: { failed: […], … } } }.
"""

import contextlib
import gc
import importlib.util
import json
import math
import pathlib
import statistics
import sys
import threading
import time
import traceback

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

# The exported files of attention kernels.
DENSE = ("fp16", "bf16", "fp16_pair", "bf16_pair", "fp16_bshd", "bf16_bshd_pair")
CANONICAL = (2, 8, 512, 64)
CALLS = 500
ROUNDS = 7
GOAL_US = 10.0
# For fp16 outputs on N(0, 1) inputs. A wrong mask or head makes an error that is a hundred times as large.
CLOSE = 1e-2
# Each case has batch, heads of Q, heads of K, queries, keys, head dimension and mask.
CASES = [
    (2, 8, 8, 512, 512, 64, 0),
    (2, 8, 8, 512, 512, 64, 1),
    (2, 8, 2, 512, 512, 64, 1),
    (1, 8, 1, 300, 1000, 64, 2),
    (1, 8, 4, 300, 1000, 64, 1),
    (1, 12, 4, 1, 777, 64, 2),
    (2, 16, 16, 1024, 1024, 128, 1),
    (1, 32, 8, 113, 500, 128, 2),
    (1, 8, 8, 33, 33, 128, 0),
]
# Shapes on which gradients are checked in addition to CASES.
MORE_CASES = [
    (1, 32, 8, 1024, 1024, 128, 1),
    (2, 8, 8, 1024, 1024, 128, 0),
    (1, 16, 2, 2000, 2000, 64, 1),
    (2, 6, 2, 129, 257, 64, 2),
    (1, 4, 4, 257, 129, 128, 1),
    (1, 4, 1, 500, 1500, 128, 0),
]
# Batch, heads of Q, heads of K, rows, head dimension and mask of the shapes whose forward and backward pass are timed.
TIMED = [
    (2, 8, 8, 512, 64, 0),
    (2, 8, 8, 512, 64, 1),
    (8, 16, 16, 1024, 64, 1),
    (4, 16, 16, 2048, 128, 1),
    (4, 32, 8, 2048, 128, 1),
    (2, 16, 16, 4096, 128, 0),
    (1, 32, 32, 8192, 128, 1),
]


def load(path):
    spec = importlib.util.spec_from_file_location(f"exported_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    # torch.compile imports the module of each function that it traces.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def drawn(*shape, dtype=torch.float16):
    return torch.randn(shape, device="cuda", dtype=dtype)


def laid_out(module, tensors):
    """Tensors of [B, H, S, D] in the memory layout that the module's attention expects."""
    if not module._kernel.layouts:
        return tensors
    return [each.detach().transpose(1, 2).contiguous().transpose(1, 2) for each in tensors]


def hidden(queries, keys, mask):
    """A mask of the keys that a query does not see. None if it sees all keys."""
    if not mask:
        return None
    last = torch.arange(queries, device="cuda")[:, None] + (keys - queries if mask == 2 else 0)
    return torch.arange(keys, device="cuda") > last


def by_definition(q, k, v, mask):
    """Attention computed in fp32 from its definition."""
    shared = q.shape[1] // k.shape[1]
    k, v = (each.float().repeat_interleave(shared, 1) for each in (k, v))
    scores = q.float() @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    unseen = hidden(q.shape[2], k.shape[2], mask)
    if unseen is not None:
        scores = scores.masked_fill(unseen, -math.inf)
    return torch.softmax(scores, -1) @ v


def sdpa(q, k, v, mask):
    """PyTorch's attention in the dtype of the tensors."""
    unseen = hidden(q.shape[2], k.shape[2], mask)
    square = q.shape[2] == k.shape[2]
    if mask and square:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    seen = None if unseen is None else ~unseen
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, enable_gqa=True)


def most(a, b):
    # max() would ignore a NaN, which must count as an infinite error.
    return (a.float() - b.float()).abs().nan_to_num(math.inf).max().item()


def host_us(call, calls=CALLS):
    """The median and the minimum over rounds of the host time per call, in microseconds. The timed loop never
    synchronizes."""
    for _ in range(20):
        call()
    rounds = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - began) * 1e6 / calls)
    torch.cuda.synchronize()
    return {"median": round(statistics.median(rounds), 2), "least": round(min(rounds), 2)}


def gpu_us(call, calls=100):
    for _ in range(10):
        call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    times = []
    for _ in range(11):
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / calls)
    return round(statistics.median(times), 3)


def host(modules):
    """Measures the host time of eager calls at 2x8x512x64."""
    module = modules["fp16"]
    q, k, v, o = (drawn(*CANONICAL) for _ in range(4))
    sets = [tuple(drawn(*CANONICAL) for _ in range(4)) for _ in range(50)]
    turn = [0]

    def in_turn():
        turn[0] = (turn[0] + 1) % len(sets)
        module.attention_out(*sets[turn[0]])

    packed = [drawn(2, 512, 8, 64) for _ in range(3)]
    learning = [each.clone().requires_grad_() for each in (q, k, v)]
    calls = {
        "attention_out": (lambda: module.attention_out(q, k, v, o), CALLS),
        "attention": (lambda: module.attention(q, k, v), CALLS),
        "attention_out, 50 sets in turns": (in_turn, CALLS),
        "sdpa": (lambda: F.scaled_dot_product_attention(q, k, v), CALLS),
        # A call has five launches, and the driver's queue has room for about a thousand launches.
        "flash_attn_func": (lambda: module.flash_attn_func(*packed), 150),
        "attention, with gradients": (lambda: module.attention(*learning), 200),
        "sdpa, with gradients": (lambda: F.scaled_dot_product_attention(*learning), 200),
        "operator": (lambda: module.attention_op(q, k, v, 0), 200),
    }
    bshd = modules["fp16_bshd"]
    views = [each.transpose(1, 2) for each in packed]
    packed_learning = [each.clone().requires_grad_() for each in packed]
    calls |= {
        "attention, BSHD": (lambda: bshd.attention(*views), CALLS),
        "flash_attn_func, BSHD": (lambda: bshd.flash_attn_func(*packed), CALLS),
        "flash_attn_func, BSHD, with gradients": (lambda: bshd.flash_attn_func(*packed_learning), 200),
    }
    found = {name: host_us(*call) for name, call in calls.items()}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        found["sdpa, flash"] = host_us(lambda: F.scaled_dot_product_attention(q, k, v))
    with torch.inference_mode():
        found["attention, inference mode"] = host_us(lambda: module.attention(q, k, v))
    # Measures without the compiled binding, as on a host without a C compiler.
    fast, module._kernel.fast = module._kernel.fast, lambda *arguments: False
    found["attention_out, from Python"] = host_us(lambda: module.attention_out(q, k, v, o))
    found["attention, from Python"] = host_us(lambda: module.attention(q, k, v))

    def forget():
        module._kernel.threads.prepared.clear()
        module.attention_out(q, k, v, o)

    def forget_maps():
        module._kernel.on(0)._maps.clear()
        forget()

    def forget_shape():
        module.plan.cache_clear()
        forget_maps()

    found["first call of a set of known tensors"] = host_us(forget, 100)
    found["first call at new addresses"] = host_us(forget_maps, 100)
    found["first call of a shape"] = host_us(forget_shape, 100)
    module._kernel.fast = fast
    gpu = {
        "attention": gpu_us(lambda: module.attention(q, k, v)),
        "flash_attn_func": gpu_us(lambda: module.flash_attn_func(*packed)),
        "flash_attn_func, BSHD": gpu_us(lambda: bshd.flash_attn_func(*packed)),
        "sdpa": gpu_us(lambda: F.scaled_dot_product_attention(q, k, v)),
    }
    slow = [name for name in ("attention_out", "attention") if found[name]["median"] > GOAL_US]
    return {
        "binding": module.BINDING_PROBLEM,
        "host_us": found,
        "gpu_us": gpu,
        "failed": [f"{name} takes more than {GOAL_US} us" for name in slow],
    }


def correct(modules):
    """Checks results. A result and SDPA's are compared by their distances from attention in fp32."""
    rows, failed = [], []
    for name in [each for each in DENSE if each in modules]:
        module, dtype = modules[name], modules[name].DTYPE
        for case in CASES:
            *_, S, Skv, _, mask = case
            (q, k, v), _ = drawn_case(case, dtype)
            expected = by_definition(q, k, v, mask)
            theirs = most(sdpa(q, k, v, mask), expected)
            ours = most(module.attention(*laid_out(module, (q, k, v)), mask), expected)
            row = {"export": name, "case": case, "ours": ours, "sdpa": theirs}
            if mask != 1 or S == Skv:
                swapped = [each.transpose(1, 2).contiguous() for each in (q, k, v)]
                row["flash_attn_func"] = most(
                    module.flash_attn_func(*swapped, causal=mask != 0).transpose(1, 2), expected
                )
            unit = 2.0**-10 if dtype is torch.float16 else 2.0**-7
            bad = [key for key in ("ours", "flash_attn_func") if not row.get(key, 0.0) <= 2 * theirs + unit]
            failed += [f"{name} {case}: {key} is {row[key]} from fp32, SDPA {theirs}" for key in bad]
            rows.append(row)
    return {"rows": rows, "failed": failed}


def refusals(modules):
    """Makes wrong calls and returns their error messages."""
    module = modules["fp16"]
    q, k, v = (drawn(1, 2, 128, 64) for _ in range(3))
    shifted = drawn(2 * 128 * 64 + 1)[1:].view(1, 2, 128, 64)
    wrong = {
        "dtype": lambda: module.attention(q.float(), k.float(), v.float()),
        "device": lambda: module.attention(q.cpu(), k.cpu(), v.cpu()),
        "layout": lambda: module.attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)),
        "alignment": lambda: module.attention(q, shifted, v),
        "shape": lambda: module.attention(q, k, v[:, :, :64].contiguous()),
        "heads": lambda: module.attention(drawn(1, 3, 128, 64), k, v),
        "limit": lambda: module.attention(*(each[..., :40].contiguous() for each in (q, k, v))),
        "scale in dropout's place": lambda: module.flash_attn_func(q, k, v, 0.0),
        "dropout": lambda: module.flash_attn_func(q, k, v, dropout_p=0.1),
    }
    texts = {}
    for name, call in wrong.items():
        try:
            call()
            texts[name] = "not refused"
        except Exception as error:
            texts[name] = f"{type(error).__name__}: {error}"[:300]
    return {"texts": texts, "failed": [name for name, text in texts.items() if text == "not refused"]}


def addresses(modules):
    """Checks results when memory is freed and reused for other shapes, in several streams and threads."""
    module, failed = modules["fp16"], []
    shapes = [(2, 8, 512, 64), (1, 16, 512, 64), (4, 8, 256, 64), (1, 8, 512, 128), (2, 4, 700, 64)]
    seen, repeated = set(), 0

    def check(number, where):
        shape = shapes[number % len(shapes)]
        q, k, v = (drawn(*shape) for _ in range(3))
        out = module.attention(q, k, v, number % 2)
        error = most(out, sdpa(q, k, v, number % 2))
        if not error < CLOSE:
            failed.append(f"{where}: {shape} is {error} from SDPA")
        return out.data_ptr()

    for number in range(200):
        at = check(number, "again")
        repeated += at in seen
        seen.add(at)
        if number % 17 == 0:
            gc.collect()
            torch.cuda.empty_cache()

    def worker(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for each in range(40):
                check(number + each, f"thread {number}")

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    devices = torch.cuda.device_count()
    for device in range(1, devices):
        q, k, v = (drawn(*CANONICAL).to(f"cuda:{device}") for _ in range(3))
        error = most(module.attention(q, k, v), F.scaled_dot_product_attention(q, k, v))
        if not error < CLOSE:
            failed.append(f"cuda:{device} is {error} from SDPA")
    return {"outputs_at_a_former_address": repeated, "devices": devices, "failed": failed[:10]}


def gradients_of(call, tensors, above):
    leaves = [each.detach().clone().requires_grad_() for each in tensors]
    return torch.autograd.grad(call(*leaves), leaves, above)


def drawn_case(case, dtype):
    """Draws Q, K, V and the gradient of O."""
    B, H, Hkv, S, Skv, D, _ = case
    q, k, v = ((B, H, S, D), (B, Hkv, Skv, D), (B, Hkv, Skv, D))
    return [drawn(*each, dtype=dtype) for each in (q, k, v)], drawn(*q, dtype=dtype)


def refuse_fallback(*arguments):
    raise AssertionError("the backward kernel does not take this case")


@contextlib.contextmanager
def own_backward_only(module):
    """Checks that gradients by PyTorch's backward pass are refused if the file has a kernel for them."""
    fallback = module._gradients
    if hasattr(module, "_backward_kernel"):
        module._gradients = refuse_fallback
    try:
        yield
    finally:
        module._gradients = fallback


def flash_layout(module, causal):
    """Calls flash_attn_func with tensors in attention's layout."""

    def call(q, k, v):
        return module.flash_attn_func(*(each.transpose(1, 2) for each in (q, k, v)), causal=causal).transpose(1, 2)

    return call


def gradients(modules):
    """Checks gradients. An operator's gradients and SDPA's are compared by their distances from the gradients in
    fp32."""
    rows, failed = [], []
    for name in [each for each in DENSE if each in modules]:
        module, dtype = modules[name], modules[name].DTYPE
        for case in [each for each in CASES + MORE_CASES if each[3] > 1]:
            mask = case[-1]
            given, upstream = drawn_case(case, dtype)
            exact = gradients_of(
                lambda q, k, v: by_definition(q, k, v, mask), [each.float() for each in given], upstream.float()
            )
            theirs = gradients_of(lambda q, k, v: sdpa(q, k, v, mask), given, upstream)
            with own_backward_only(module):
                own = laid_out(module, given)
                found = {"": gradients_of(lambda q, k, v: module.attention(q, k, v, mask), own, upstream)}
                if mask != 1 or case[3] == case[4]:
                    found[" of flash_attn_func"] = gradients_of(flash_layout(module, mask != 0), given, upstream)
            row = {"export": name, "case": case}
            for call, ours in found.items():
                for each, a, b, c in zip(("dq", "dk", "dv"), ours, theirs, exact):
                    error, sdpas = row[each + call] = [most(a, c), most(b, c)]
                    unit = (2.0**-10 if dtype is torch.float16 else 2.0**-7) * max(1.0, c.abs().max().item())
                    if not error <= 2 * sdpas + unit:
                        failed.append(f"{name} {case}: {each}{call} is {error} from fp32, SDPA's {sdpas}")
            rows.append(row)
    return {"rows": rows, "failed": failed}


def backward_addresses(modules):
    """Checks gradients when memory is freed and reused for other shapes, in several streams and threads."""
    module, failed = modules["bf16_pair"], []
    cases = [(2, 8, 8, 512, 512, 64, 1), (1, 16, 4, 700, 700, 64, 0), (1, 8, 8, 300, 300, 128, 1)]

    def check(number, where):
        case = cases[number % len(cases)]
        given, upstream = drawn_case(case, torch.bfloat16)
        ours = gradients_of(lambda q, k, v: module.attention(q, k, v, case[-1]), given, upstream)
        theirs = gradients_of(lambda q, k, v: sdpa(q, k, v, case[-1]), given, upstream)
        worst = max(most(a, b) / max(1.0, b.abs().max().item()) for a, b in zip(ours, theirs))
        if not worst < 0.05:
            failed.append(f"{where}: {case} is {worst} from SDPA")

    def worker(number):
        with torch.cuda.stream(torch.cuda.Stream()):
            for each in range(20):
                check(number + each, f"thread {number}")

    with own_backward_only(module):
        for number in range(60):
            check(number, "again")
            if number % 17 == 0:
                gc.collect()
                torch.cuda.empty_cache()
        threads = [threading.Thread(target=worker, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return {"failed": failed[:10]}


def graph_with_gradients(modules):
    """Captures forward and backward pass in one CUDA graph and replays the graph with other inputs."""
    module, failed, worst = modules["bf16_pair"], [], 0.0
    case = (2, 8, 2, 512, 512, 64, 1)
    given, upstream = drawn_case(case, torch.bfloat16)
    leaves = [each.requires_grad_() for each in given]

    def step():
        return torch.autograd.grad(module.attention(*leaves, True), leaves, upstream)

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with own_backward_only(module), torch.cuda.graph(graph):
        captured = step()
    for _ in range(3):
        fresh, above = drawn_case(case, torch.bfloat16)
        with torch.no_grad():
            for leaf, value in zip([*leaves, upstream], [*fresh, above]):
                leaf.copy_(value)
        graph.replay()
        theirs = gradients_of(lambda q, k, v: sdpa(q, k, v, 1), fresh, above)
        worst = max(worst, *(most(a, b) / max(1.0, b.abs().max().item()) for a, b in zip(captured, theirs)))
    if not worst < 0.05:
        failed.append(f"{worst} from SDPA")
    return {"most_from_sdpa": worst, "failed": failed}


BACKENDS = {"sdpa, flash": SDPBackend.FLASH_ATTENTION, "sdpa, cuDNN": SDPBackend.CUDNN_ATTENTION}


def event_us(call, calls):
    """Median microseconds per eager call on the stream: the GPU's time, or the host's time if that is longer."""
    for _ in range(3):
        call()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    rounds = []
    for _ in range(7):
        start.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        rounds.append(start.elapsed_time(end) * 1e3 / calls)
    return round(statistics.median(rounds), 2)


def captured(call, calls=10):
    """Captures calls in a CUDA graph. A replay takes only the GPU's time, however long the host needs for the calls."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            call()
    return graph


def in_turns_us(graphs, rounds=15, calls=10):
    """Median microseconds per call of each graph. The graphs are replayed in turns, so that all run at the same
    clocks."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = {name: [] for name in graphs}
    for each in range(rounds + 1):
        for name, graph in graphs.items():
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            if each > 0:
                times[name].append(start.elapsed_time(end) * 1e3 / calls)
    return {name: round(statistics.median(each), 2) for name, each in times.items()}


def eager_gradients(modules):
    """Compares forward and backward pass with SDPA's: the host's time, the time on the stream in eager mode, and in a
    graph."""
    module, bshd, rows, host_rows, failed = modules["bf16_pair"], modules["bf16_bshd_pair"], [], {}, []
    for case in TIMED:
        B, H, Hkv, S, D, mask = case
        (q, k, v), upstream = drawn_case((B, H, Hkv, S, S, D, mask), torch.bfloat16)
        learning = [each.requires_grad_() for each in (q, k, v)]
        packed = [each.detach().transpose(1, 2).contiguous().requires_grad_() for each in learning]
        above = upstream.transpose(1, 2).contiguous()

        def theirs():
            return F.scaled_dot_product_attention(*learning, is_causal=mask == 1, enable_gqa=H != Hkv)

        arms = {
            "attention": (None, lambda: module.attention(*learning, mask), learning, upstream),
            "flash_attn_func": (None, lambda: module.flash_attn_func(*packed, causal=mask == 1), packed, above),
            "flash_attn_func, BSHD": (None, lambda: bshd.flash_attn_func(*packed, causal=mask == 1), packed, above),
            **{name: (backend, theirs, learning, upstream) for name, backend in BACKENDS.items()},
        }
        forwards, steps = {}, {}
        for name, (backend, forward, leaves, gradient) in arms.items():
            row = {"case": case, "call": name}

            def step():
                return torch.autograd.grad(forward(), leaves, gradient)

            try:
                with sdpa_kernel(backend) if backend else contextlib.nullcontext():
                    row["eager_us"] = event_us(step, 50 if S <= 512 else 10)
                    forwards[name], steps[name] = captured(forward), captured(step)
                    if case == TIMED[0]:
                        host_rows[f"{name}, both passes"] = host_us(step, 100)
                        host_rows[f"{name}, forward"] = host_us(forward, 150)
            except RuntimeError as error:
                row["error"] = f"{type(error).__name__}: {error}"[:200]
                if backend is None:
                    failed.append(f"{case}: {name}: {row['error']}")
            rows.append(row)
        for key, graphs in (("forward_us", forwards), ("graph_us", steps)):
            for name, us in in_turns_us(graphs).items():
                next(row for row in rows[-len(arms) :] if row["call"] == name)[key] = us
    kernels = [kernel for each in (module, bshd) for kernel in (each._kernel, each._backward_kernel)]
    if not all("fast" in vars(each) for each in kernels):
        failed.append(f"launches are made from Python: {module.BINDING_PROBLEM}")
    # Calls the backward pass directly, without autograd's own time.
    (q, k, v), upstream = drawn_case((2, 8, 8, 512, 512, 64, 0), torch.bfloat16)
    out, lse = module.attention_op(q, k, v)
    known = (q, k, v, out, lse, upstream, 0, None)
    host_rows["backward kernel"] = host_us(lambda: module._kernel_gradients(*known), 150)
    fast, module._backward_kernel.fast = module._backward_kernel.fast, lambda *arguments: False
    host_rows["backward kernel, from Python"] = host_us(lambda: module._kernel_gradients(*known), 150)
    module._backward_kernel.fast = fast
    return {"rows": rows, "host_us": host_rows, "failed": failed}


def training_step(modules):
    """Compares training steps of a larger transformer with those of SDPA's backends."""
    example, times = modules["example"], {}
    for name, size in {
        "256 rows": example.Size(),
        "2048 rows, D 64": example.Size(length=2048, batch=4, layers=4, heads=16, kv_heads=16, head_dim=64),
        "4096 rows, D 128": example.Size(length=4096, batch=2, layers=4, heads=16, kv_heads=4, head_dim=128),
    }.items():
        arms = {
            "exported": (modules["bf16_pair"].flash_attn_func, contextlib.nullcontext),
            "exported, BSHD": (modules["bf16_bshd_pair"].flash_attn_func, contextlib.nullcontext),
            **{arm: (example.sdpa, lambda each=each: sdpa_kernel(each)) for arm, each in BACKENDS.items()},
        }
        times[name] = {}
        for arm, (call, context) in arms.items():
            try:
                with context():
                    times[name][arm] = round(example.train(call, size, steps=40)["ms_a_step"], 3)
            except RuntimeError as error:
                times[name][arm] = f"{type(error).__name__}: {error}"[:200]
    exported = [(name, arms[arm]) for name, arms in times.items() for arm in ("exported", "exported, BSHD")]
    failed = [f"{name}: {found}" for name, found in exported if isinstance(found, str)]
    return {"ms_a_step": times, "failed": failed}


def compiled(modules):
    """Checks that torch.compile compiles each of the fp16 files without a graph break."""
    found = {name: compiled_file(modules[name]) for name in ("fp16", "fp16_pair", "fp16_bshd") if name in modules}
    return {**found, "failed": [f"{name}: {each}" for name, file in found.items() for each in file["failed"]]}


def compiled_file(module):
    """Checks one file: forward pass, gradients, flash_attn_func, and a changing number of keys."""
    found, failed = {}, []
    q, k, v = laid_out(module, (drawn(2, 8, 256, 64), drawn(2, 2, 256, 64), drawn(2, 2, 256, 64)))

    def step(q, k, v):
        return module.attention(q * 1.0, k, v, True) * 2.0

    def swapped(q, k, v):
        return module.flash_attn_func(q, k, v, causal=True) * 1.0

    def gradient(call):
        leaves = [each.detach().clone().requires_grad_() for each in (q, k, v)]
        return torch.autograd.grad(call(*leaves), leaves, torch.ones_like(q))

    def growing():
        call = torch.compile(module.flash_attn_func, fullgraph=True, dynamic=True)
        query = drawn(2, 1, 8, 64)
        worst = 0.0
        for keys in (64, 65, 300, 1000):
            cache = drawn(2, keys, 2, 64), drawn(2, keys, 2, 64)
            heads_first = [each.transpose(1, 2) for each in (query, *cache)]
            worst = max(worst, most(call(query, *cache, causal=True).transpose(1, 2), by_definition(*heads_first, 2)))
        return worst

    packed = [each.transpose(1, 2).contiguous() for each in (q, k, v)]
    checks = {
        "forward": lambda: most(torch.compile(step, fullgraph=True)(q, k, v), step(q, k, v)),
        "gradients": lambda: max(map(most, gradient(torch.compile(step, fullgraph=True)), gradient(step))),
        "flash_attn_func": lambda: most(torch.compile(swapped, fullgraph=True)(*packed), swapped(*packed)),
        "keys that grow": growing,
        "opcheck": lambda: opcheck(module, q, k, v),
    }
    for name, check in checks.items():
        torch._dynamo.reset()
        try:
            found[name] = check()
            if not found[name] < CLOSE:
                failed.append(f"{name}: {found[name]} from eager")
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"[:1500]
            failed.append(name)
    return {"differences": found, "failed": failed}


def opcheck(module, q, k, v):
    torch.library.opcheck(module.attention_op, (q, k, v, 0))
    torch.library.opcheck(module.attention_op, tuple(each.clone().requires_grad_() for each in (q, k, v)))
    outputs = module.attention_op(q, k, v)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    torch.library.opcheck(module.attention_out_op, (q, k, v, *outputs, 0))
    return 0.0


def training(modules):
    """examples/pytorch/train_transformer.py runs with SDPA and with the exported kernels. Returns the losses, and by
    how much the losses of two of SDPA's backends differ."""
    example = modules["example"]
    arms = {"sdpa": (example.sdpa, SDPBackend.FLASH_ATTENTION), "sdpa, math": (example.sdpa, SDPBackend.MATH)}
    names = [name for name in ("bf16", "bf16_pair", "bf16_bshd_pair") if name in modules]
    arms |= {name: (modules[name].flash_attn_func, None) for name in names}
    runs = {}
    for name, (call, backend) in arms.items():
        with sdpa_kernel(backend) if backend else contextlib.nullcontext():
            runs[name] = example.train(call)
    found = example.compared(runs)
    said = {"same": "the losses differ", "learned": "it has not learned"}
    return {**found, "failed": [text for key, text in said.items() if not found[key]]}


def decoding(modules):
    """Runs a decoding loop with flash_attn_with_kvcache: eager, compiled, and in one CUDA graph for all lengths."""
    B, H, Hkv, D, rows, steps = 4, 32, 8, 128, 512, 64
    found, failed = {}, []
    keys, values = drawn(B, rows, Hkv, D), drawn(B, rows, Hkv, D)
    queries = drawn(steps, B, 1, H, D)
    begin = torch.tensor([5, 64, 300, 127], dtype=torch.int32, device="cuda")

    def expected(step):
        """The expected output, if sequence b has begin[b] + step + 1 keys."""
        outs = []
        for b, length in enumerate((begin + step + 1).tolist()):
            q, k, v = (each.transpose(0, 1)[None] for each in (queries[step, b], keys[b, :length], values[b, :length]))
            outs.append(by_definition(q, k, v, 0)[0].transpose(0, 1))
        return torch.stack(outs)

    wanted = [expected(step) for step in range(steps)]

    def loop(kind, make):
        """`make` returns the function of one step. The function writes the new key and increments the lengths."""
        cache = torch.zeros_like(keys), torch.zeros_like(values)
        for b, length in enumerate(begin.tolist()):
            cache[0][b, :length], cache[1][b, :length] = keys[b, :length], values[b, :length]
        lengths = begin.clone()
        given = [
            torch.empty_like(queries[0]),
            *(torch.empty(B, 1, Hkv, D, dtype=keys.dtype, device="cuda") for _ in "kv"),
        ]
        at = torch.arange(B, device="cuda")
        worst, host = 0.0, 0.0
        call = make(given, cache, lengths)
        lengths.copy_(begin)
        for step in range(steps):
            place = begin.long() + step
            for target, source in zip(given, (queries[step], keys[at, place][:, None], values[at, place][:, None])):
                target.copy_(source)
            torch.cuda.synchronize()
            began = time.perf_counter()
            out = call()
            host += time.perf_counter() - began
            worst = max(worst, most(out, wanted[step]))
        found[kind] = {"most_from_fp32": worst, "host_us_a_step": round(host * 1e6 / steps, 1)}
        if not worst < CLOSE:
            failed.append(f"{kind}: {worst} from fp32")

    def step_of(cached):
        def step(q, k, v, k_cache, v_cache, lengths):
            out = cached(q, k_cache, v_cache, k, v, lengths)
            lengths += 1
            return out

        return step

    def eager(step):
        def make(given, cache, lengths):
            step(*given, *cache, lengths)
            return lambda: step(*given, *cache, lengths)

        return make

    def in_a_graph(step):
        def make(given, cache, lengths):
            step(*given, *cache, lengths)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                out = step(*given, *cache, lengths)

            def call():
                graph.replay()
                return out

            return call

        return make

    contiguous = step_of(
        lambda q, kc, vc, k, v, lengths: modules["decode"].flash_attn_with_kvcache(
            q, kc, vc, k, v, cache_seqlens=lengths
        )
    )
    page = 16
    table = torch.randperm(B * rows // page, device="cuda").int().view(B, rows // page)

    def paged_step(q, kc, vc, k, v, lengths):
        pages = [each.view(B * rows // page, page, Hkv, D) for each in (kc, vc)]
        return modules["paged"].flash_attn_with_kvcache(q, *pages, k, v, cache_seqlens=lengths, block_table=table)

    def paged_loop(kind, make):
        """Runs the loop on pages. The first rows of the cache are copied to the pages that the table names."""

        def scattered(given, cache, lengths):
            for each in cache:
                pages = each.clone().view(B * rows // page, page, Hkv, D)
                each.view(B * rows // page, page, Hkv, D)[table.flatten().long()] = pages
            return make(given, cache, lengths)

        loop(kind, scattered)

    torch._dynamo.reset()
    runs = {
        "eager": lambda kind: loop(kind, eager(contiguous)),
        "CUDA graph": lambda kind: loop(kind, in_a_graph(contiguous)),
        "torch.compile": lambda kind: loop(kind, eager(torch.compile(contiguous, fullgraph=True))),
        "torch.compile, reduce-overhead": lambda kind: loop(
            kind, eager(torch.compile(contiguous, fullgraph=True, mode="reduce-overhead"))
        ),
        "paged, eager": lambda kind: paged_loop(kind, eager(step_of(paged_step))),
        "paged, CUDA graph": lambda kind: paged_loop(kind, in_a_graph(step_of(paged_step))),
    }
    for kind, run in runs.items():
        try:
            run(kind)
        except Exception as error:
            found[kind] = f"{type(error).__name__}: {error}"[:1500]
            failed.append(kind)
    return {"loops": found, "failed": failed}


def packed_sequences(modules):
    """Compares flash_attn_varlen_func and FlashInfer's wrappers with attention of each sequence in fp32."""
    found, failed = {}, []
    module = modules["varlen"]
    offsets = torch.tensor([0, 7, 7, 230, 500], dtype=torch.int32, device="cuda")
    q, k, v = drawn(500, 8, 64), drawn(500, 2, 64), drawn(500, 2, 64)
    parts = []
    for begin, end in ((0, 7), (7, 230), (230, 500)):
        parts.append(
            by_definition(*(each[begin:end].transpose(0, 1)[None] for each in (q, k, v)), 1)[0].transpose(0, 1)
        )
    expected = torch.cat(parts)
    found["flash_attn_varlen_func"] = most(
        module.flash_attn_varlen_func(q, k, v, offsets, offsets, 270, 270, causal=True), expected
    )
    ragged = module.BatchPrefillWithRaggedKVCacheWrapper(torch.empty(1, device="cuda"), "NHD")
    ragged.plan(offsets, offsets, 8, 2, 64, causal=True)
    out, lse = ragged.run(q, k, v, return_lse=True)
    found["BatchPrefillWithRaggedKVCacheWrapper"] = most(out, expected)
    # This query sees only its own key, so its LSE in base 2 is the logarithm of a single weight.
    own = (q[230].float() * k[230].float().repeat_interleave(4, 0)).sum(-1) / math.sqrt(64) / math.log(2)
    found["its lse"] = most(lse[230], own)
    query, key, value = drawn(32, 128), drawn(333, 8, 128), drawn(333, 8, 128)
    single = modules["decode"].single_decode_with_kv_cache(query, key, value)
    heads_first = [query[None, :, None], key.transpose(0, 1)[None], value.transpose(0, 1)[None]]
    found["single_decode_with_kv_cache"] = most(single, by_definition(*heads_first, 0)[0, :, 0])
    pages = drawn(12, 16, 8, 128), drawn(12, 16, 8, 128)
    paged = modules["paged"].BatchDecodeWithPagedKVCacheWrapper(torch.empty(1, device="cuda"), "NHD")
    indptr, indices, last = (
        torch.tensor(each, dtype=torch.int32, device="cuda") for each in ([0, 2, 3], [5, 1, 7], [9, 16])
    )
    paged.plan(indptr, indices, last, 32, 8, 128, 16)
    q2 = drawn(2, 32, 128)
    out = paged.run(q2, pages)
    for b, (own_pages, length) in enumerate((([5, 1], 25), ([7], 16))):
        k, v = (each[own_pages].flatten(0, 1)[:length].transpose(0, 1)[None] for each in pages)
        found[f"BatchDecodeWithPagedKVCacheWrapper {b}"] = most(
            out[b], by_definition(q2[b][None, :, None], k, v, 0)[0, :, 0]
        )
    failed += [f"{name}: {error} from fp32" for name, error in found.items() if not error < CLOSE]
    return {"most_from_fp32": found, "failed": failed}


PARTS = [
    *(host, correct, refusals, addresses, gradients, backward_addresses, graph_with_gradients, eager_gradients),
    *(training, training_step, decoding, packed_sequences, compiled),
]


def main():
    folder, examples, out = (pathlib.Path(each) for each in sys.argv[1:4])
    wanted = sys.argv[4:]
    sys.path.insert(0, str(examples))
    modules = {path.stem: load(path) for path in sorted(folder.glob("*.py"))}
    modules["example"] = load(examples / "train_transformer.py")
    report = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": sys.version.split()[0],
        "kernels": {name: each.PROVENANCE["build"] for name, each in modules.items() if hasattr(each, "PROVENANCE")},
        "parts": {},
    }
    torch.manual_seed(1)
    for part in [each for each in PARTS if not wanted or each.__name__ in wanted]:
        began = time.perf_counter()
        try:
            found = part(modules)
        except Exception as error:
            found = {"failed": [f"{type(error).__name__}: {error}"[:1500]], "trace": traceback.format_exc()[-3000:]}
        found["seconds"] = round(time.perf_counter() - began, 1)
        report["parts"][part.__name__] = found
        out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf8")
        print(f"{part.__name__}: {found['seconds']} s, {found['failed'] or 'passed'}", flush=True)


if __name__ == "__main__":
    main()
