"""Compares the fp64 oracle with plain PyTorch in fp64 on seeded random cases: attention's O and LSE with every form of
it, the gradients with autograd's, and the merge of split-KV.

  python3 oracle_beside_torch.py KERNELS [--seed N] [--cases N] [--out FILE]

KERNELS is the folder kernels/, whose reference/ is compiled with the flags that runners use ($CXX, default g++).
PyTorch computes on the GPU if there is one. A difference is |oracle - PyTorch| divided by the larger of the element and
the output's root mean square, for O, or 1, for LSE and gradients, whose terms cancel out. Exit status 1: a difference
above 1e-12, or a form whose omission on PyTorch's side shows in no case.
"""

import argparse
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import torch

LIMIT = 1e-12
# An omitted form shows if O or LSE moves by more than this.
SHOWS = 1e-6
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# The numbers of attention_reference.h. Older versions of PyTorch have no fp8.
DTYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 2} | {
    getattr(torch, name): number for name, number in (("float8_e4m3fn", 4), ("float8_e5m2", 5)) if hasattr(torch, name)
}
SOURCES = ["attention_reference.cpp", "attention_backward.cpp", "attention_merge.cpp"]
# As in apps/runner/src/build/host-libraries.ts.
FLAGS = "-std=c++17 -O3 -march=native -fno-math-errno -fno-trapping-math -fPIC -pthread -shared".split()


# --- The oracle, through its C ABI. ---


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("count", "batch_stride", "head_stride", "row_stride")),
    ]


class Output(ctypes.Structure):
    _fields_ = [
        ("value", ctypes.c_void_p),
        ("rounding", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("count", "batch_stride", "head_stride", "row_stride")),
    ]


def fields(kind, names):
    return [(name, kind) for name in names.split()]


class Attention(ctypes.Structure):
    _fields_ = [
        *fields(ctypes.c_int32, "B Hq Hkv Sq Skv D Dv dtype"),
        *fields(Tensor, "q k v"),
        *fields(ctypes.c_void_p, "query_offsets key_offsets key_lengths page_table page_offsets"),
        *fields(ctypes.c_int32, "page_size most_pages"),
        *fields(Tensor, "selected"),
        *fields(ctypes.c_int32, "most_selected alignment causal window_left window_right"),
        *fields(ctypes.c_float, "scale softcap"),
        *fields(ctypes.c_void_p, "alibi_slopes sinks"),
        *fields(Tensor, "bias"),
        ("bias_key_stride", ctypes.c_int64),
        ("bias_dtype", ctypes.c_int32),
        *fields(Output, "o lse"),
        *fields(ctypes.c_int32, "lse_base_2 weight_dtype output_dtype"),
    ]


class Gradients(ctypes.Structure):
    _fields_ = [
        ("forward", Attention),
        *fields(Tensor, "d_o o"),
        *fields(ctypes.c_int32, "d_o_dtype o_dtype"),
        *fields(Output, "d_q d_k d_v"),
        *fields(ctypes.c_void_p, "d_sinks d_sinks_rounding"),
        *fields(ctypes.c_int32, "d_q_dtype d_k_dtype d_v_dtype d_sinks_dtype"),
    ]


class Parts(ctypes.Structure):
    _fields_ = [
        *fields(ctypes.c_int32, "parts B H S Dv o_dtype lse_dtype"),
        *fields(Tensor, "o lse"),
        *fields(ctypes.c_int64, "o_part_stride lse_part_stride"),
        *fields(ctypes.c_int32, "lse_base_2 output_dtype"),
        *fields(Output, "out_o out_lse"),
    ]


def compiled_oracle(kernels):
    with tempfile.TemporaryDirectory() as folder:
        library = os.path.join(folder, "oracle.so")
        sources = [pathlib.Path(kernels) / "reference" / name for name in SOURCES]
        subprocess.run([os.environ.get("CXX", "g++"), *FLAGS, *sources, "-o", library], check=True)
        return ctypes.CDLL(library)


def strides(view, packed=False):
    """Strides and extent of a tensor of [batch, head, row, column], or without columns. Packed rows have no batches."""
    batch, head, row = view.stride()[:3]
    last = sum((extent - 1) * stride for extent, stride in zip(view.shape, view.stride()))
    return {"count": last + 1, "batch_stride": 0 if packed else batch, "head_stride": head, "row_stride": row}


def tensor(view, packed=False):
    return Tensor(data=view.data_ptr(), **strides(view, packed))


def output(view, packed=False):
    return Output(value=view.data_ptr(), **strides(view, packed))


def call(function, problem):
    status = function(ctypes.byref(problem), 0)
    if status != 0:
        raise RuntimeError(f"the oracle must return 0, got {status}")


# --- Cases. ---


@dataclasses.dataclass
class Case:
    """A case of attention. Tensors are views of [batch, head, row, column], in memory in that order or with rows before
    heads. Packed tensors have one batch. K and V of a paged cache are [page, head, row of the page, column]."""

    rows: list  # queries of each sequence
    keys: list
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    scale: float
    query_offsets: list = None
    key_offsets: list = None
    key_lengths: list = None
    pages: list = None  # of each sequence
    flat_pages: bool = False
    selected: torch.Tensor = None
    causal: int = 0  # 1: from the first key, 2: to the last
    window: tuple = (-1, -1)
    softcap: float = 0.0
    slopes: torch.Tensor = None
    bias: torch.Tensor = None
    sinks: torch.Tensor = None
    lse_base_2: bool = False
    # The query head's key head; only a mistake has another one than h / (Hq / Hkv).
    heads: list = None

    @property
    def group(self):
        return self.q.shape[1] // self.k.shape[1]


def drawn(generator, shape, rows_first, dtype):
    """N(0, 1) as a view of [batch, head, row, column]."""
    batch, head, row, column = shape
    values = torch.randn((batch, row, head, column) if rows_first else shape, generator=generator).to(dtype)
    return values.transpose(1, 2) if rows_first else values


def drawn_case(seed, backward):
    """A case in which each form has about an even chance; every eighth has thousands of keys."""
    r, g = random.Random(seed), torch.Generator().manual_seed(seed)

    def maybe(chance=0.4):
        return r.random() < chance

    long = seed % 8 == 0
    B, Hkv, group = r.randint(1, 3), r.randint(1, 3), r.choice([1, 1, 2, 3, 8])
    Hq = Hkv * group
    D, Dv = r.choice([1, 8, 16, 40, 64, 96]), r.choice([8, 16, 64, 72])
    rows_first, dtype = maybe(0.5), r.choice(list(DTYPES))
    Sq = r.choice([1, 3, 17]) if long else r.choice([1, 2, 9, 33, 70])
    Skv = Sq if maybe(0.3) else r.randint(1500, 5000) if long else r.choice([1, 5, 16, 33, 130])
    shape = {"rows": [Sq] * B, "keys": [Skv] * B}
    packed_queries, lengths, packed_keys, paged = maybe(0.3), maybe(), maybe(0.3), maybe(0.3) and not backward
    if packed_queries:
        shape["rows"] = [r.randint(0, Sq) for _ in range(B)]
        shape["query_offsets"] = sums(shape["rows"])
    places = [Skv] * B
    if packed_keys and not paged:
        places = [r.randint(0, Skv) for _ in range(B)]
        shape["key_offsets"], shape["keys"] = sums(places), places
    if lengths or paged:
        shape["keys"] = [r.choice([each, r.randint(0, each), min(each, 1)]) for each in places]
        shape["key_lengths"] = shape["keys"]
    query_shape = (1, Hq, max(1, sum(shape["rows"]))) if packed_queries else (B, Hq, Sq)
    if paged:
        page = r.choice([1, 4, 16])
        counts = [-(-each // page) for each in shape["keys"]]
        pool = r.sample(range(sum(counts) + 3), sum(counts) + 3)
        shape["pages"] = [[pool.pop() for _ in range(count)] for count in counts]
        shape["flat_pages"] = maybe(0.5)
        key_shape = (sum(counts) + 3, Hkv, page)
    else:
        key_shape = (1, Hkv, max(1, sum(places))) if "key_offsets" in shape else (B, Hkv, Skv)
    shares = maybe(0.15) and Dv <= D and not backward
    k = drawn(g, (*key_shape, D), rows_first, dtype)
    case = Case(
        q=drawn(g, (*query_shape, D), rows_first, dtype),
        k=k,
        v=k[..., :Dv] if shares else drawn(g, (*key_shape, Dv), rows_first, dtype),
        scale=single(r.uniform(0.5, 2) / math.sqrt(D)),
        causal=r.choice([0, 0, 1, 2]),
        lse_base_2=maybe(0.3),
        **shape,
    )
    spoil_unowned_keys(case)
    if maybe():
        case.window = (r.choice([-1, 0, 3, Skv // 2]), -1 if case.causal else r.choice([-1, 0, 5]))
    if maybe(0.3):
        case.softcap = single(r.uniform(0.5, 3))
    if maybe(0.3):
        case.slopes = torch.tensor([2.0 ** -r.uniform(1, 6) for _ in range(Hq)])
    if maybe(0.4):
        case.sinks = torch.randn(Hq, generator=g) * 2
    if maybe(0.3):
        case.bias = drawn_bias(r, g, (B, Hq, Sq, Skv), dtype)
    if maybe(0.25):
        case.selected = drawn_lists(r, case, query_shape)
    return case


def single(value):
    """The number that a C float holds."""
    return ctypes.c_float(value).value


def sums(counts):
    return [sum(counts[:index]) for index in range(len(counts) + 1)]


def spoil_unowned_keys(case):
    """Sets rows of K and V to NaN that no sequence owns: the oracle must not read them."""
    mark = torch.zeros(case.k.shape[:3], dtype=torch.bool)
    for b in range(len(case.keys)):
        for row in key_rows(case, mark[..., None], b):
            row.fill_(True)
    for each in (case.k, case.v):
        values = each.float()
        values[~mark] = math.nan
        each.copy_(values.to(each.dtype))


def drawn_bias(r, g, shape, dtype):
    """Some dimensions have one index, and one number in eight is minus infinity, which hides a key."""
    dtype = r.choice([torch.float32, torch.float16, torch.bfloat16])
    held = [1 if index < 3 and r.random() < 0.3 else extent for index, extent in enumerate(shape)]
    values = torch.randn(held, generator=g)
    values[torch.rand(held, generator=g) < 0.125] = -math.inf
    return values.to(dtype).expand(shape)


def drawn_lists(r, case, query_shape):
    """Lists of keys, some of them empty or with a key twice; -1 names none."""
    most = r.choice([1, 7, 40])
    lists = torch.full((query_shape[0], case.k.shape[1], query_shape[2], most), -1, dtype=torch.int32)
    for b, keys in enumerate(case.keys):
        of_sequence = query_rows(case, lists, b)
        for head in of_sequence:
            for row in head:
                for index in range(most if r.random() < 0.8 else 0):
                    if keys and r.random() < 0.8:
                        row[index] = r.randrange(keys)
    return lists


# --- The same in PyTorch. ---


def query_rows(case, tensor, b):
    """Sequence b's rows of a tensor in Q's order: [head, row, column]."""
    if case.query_offsets:
        return tensor[0][:, case.query_offsets[b] : case.query_offsets[b + 1]]
    return tensor[b][:, : case.rows[b]]


def key_rows(case, tensor, b):
    """Views of sequence b's rows of a tensor in K's order, in their order along dimension 1: [head, rows, column]."""
    if case.pages:
        page = tensor.shape[2]
        return [tensor[place][:, : min(page, case.keys[b] - index * page)] for index, place in enumerate(case.pages[b])]
    if case.key_offsets:
        return [tensor[0][:, case.key_offsets[b] : case.key_offsets[b] + case.keys[b]]]
    return [tensor[b][:, : case.keys[b]]]


def keys_of(case, tensor, b):
    rows = key_rows(case, tensor, b)
    return torch.cat(rows, 1) if rows else tensor[0][:, :0]


def of_query_heads(case, tensor):
    heads = case.heads or [head // case.group for head in range(case.q.shape[1])]
    return tensor[heads]


def by_torch(case, leaves, b):
    """O and LSE of sequence b, by attention's definition: [head, row, column] and [head, row]. `leaves`: Q, K, V and
    sinks in fp64."""
    q, k, v, sinks = leaves
    q = query_rows(case, q, b)
    k, v = (of_query_heads(case, keys_of(case, each, b)) for each in (k, v))
    scores, seen = scores_of(case, q, k, b)
    heads, rows, _ = scores.shape
    if sinks is not None:
        logits = torch.cat([scores.masked_fill(~seen, -math.inf), sinks[:, None, None].expand(heads, rows, 1)], 2)
        lse = torch.logsumexp(logits, 2)
        weights = torch.softmax(logits, 2)[..., :-1]
    else:
        any_key = seen.any(2, keepdim=True)
        # A softmax of minus infinities is NaN, and so are its gradients.
        logits = scores.masked_fill(~seen & any_key, -math.inf)
        if logits.shape[2] == 0:
            return q.new_zeros(heads, rows, v.shape[2]) + 0 * q.sum(), q.new_full((heads, rows), -math.inf)
        lse = torch.logsumexp(logits, 2).masked_fill(~any_key[..., 0], -math.inf)
        weights = torch.softmax(logits, 2) * any_key
    return weights @ v, lse / math.log(2) if case.lse_base_2 else lse


def scores_of(case, q, k, b):
    """The scores that the softmax gets, and which of them are seen."""
    rows, keys = q.shape[1], k.shape[1]
    at = torch.arange(rows, device=DEVICE)[:, None] + (keys - rows if case.causal == 2 else 0)
    key = torch.arange(keys, device=DEVICE)
    left, right = case.window
    seen = torch.ones(q.shape[0], rows, keys, dtype=torch.bool, device=DEVICE)
    if case.causal:
        seen = seen & (key <= at)
    if left >= 0:
        seen = seen & (key >= at - left)
    if right >= 0:
        seen = seen & (key <= at + right)
    scores = q @ k.transpose(1, 2) * case.scale
    if case.softcap:
        scores = case.softcap * torch.tanh(scores / case.softcap)
    if case.slopes is not None:
        scores = scores - on_device(case.slopes)[:, None, None] * (at - key).abs()
    if case.bias is not None:
        bias = on_device(case.bias[b, :, :rows, :keys])
        seen = seen & (bias != -math.inf)
        scores = scores + bias.masked_fill(bias == -math.inf, 0)
    if case.selected is not None:
        lists = query_rows(case, case.selected, b).to(DEVICE).long()
        counts = torch.zeros(*lists.shape[:2], keys + 1, device=DEVICE, dtype=torch.float64)
        counts = counts.scatter_add(2, lists + 1, torch.ones_like(lists, dtype=torch.float64))[..., 1:]
        counts = of_query_heads(case, counts)
        seen = seen & (counts > 0)
        # A key that is listed twice counts twice.
        scores = scores + counts.clamp(min=1).log()
    return scores, seen


def on_device(tensor):
    return tensor.float().to(DEVICE).double()


def leaves_of(case, gradients=False):
    tensors = [case.q, case.k, case.v, case.sinks]
    return [each if each is None else on_device(each).requires_grad_(gradients) for each in tensors]


def forward_by_torch(case):
    """O and LSE of all sequences, NaN where the oracle must not write."""
    leaves = leaves_of(case)
    o, lse = empty_outputs(case)
    for b in range(len(case.rows)):
        of_sequence = by_torch(case, leaves, b)
        query_rows(case, o, b).copy_(of_sequence[0])
        query_rows(case, lse, b).copy_(of_sequence[1])
    return o, lse


def empty_outputs(case):
    rows = case.q.shape[:3]
    return tuple(torch.full(shape, math.nan, dtype=torch.float64) for shape in ((*rows, case.v.shape[3]), rows))


def backward_by_torch(case, d_o):
    """dQ, dK, dV and dSinks, by autograd."""
    leaves = leaves_of(case, gradients=True)
    total = 0
    for b in range(len(case.rows)):
        o, _ = by_torch(case, leaves, b)
        total = total + (o * on_device(query_rows(case, d_o, b))).sum()
    wanted = [each for each in leaves if each is not None]
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    found = [torch.zeros_like(leaf) if each is None else each for leaf, each in zip(wanted, found)]
    return [each.cpu() for each in found]


def only_owned(case, of, tensor):
    """The tensor with NaN in rows that no sequence owns."""
    kept = torch.full(tensor.shape, math.nan, dtype=torch.float64)
    for b in range(len(case.rows)):
        pairs = (
            [(query_rows(case, kept, b), query_rows(case, tensor, b))]
            if of == "queries"
            else zip(key_rows(case, kept, b), key_rows(case, tensor, b))
        )
        for to, values in pairs:
            to.copy_(values)
    return kept


# --- The oracle on the same cases. ---


def attention_struct(case, held):
    """flashcore_attention without outputs. `held` keeps the arrays alive."""

    def array(values, kind=ctypes.c_int32):
        if values is None:
            return None
        held.append((kind * max(1, len(values)))(*values))
        return ctypes.cast(held[-1], ctypes.c_void_p)

    packed = case.query_offsets is not None
    problem = Attention(
        B=len(case.rows),
        Hq=case.q.shape[1],
        Hkv=case.k.shape[1],
        Sq=max(1, *case.rows, 1),
        Skv=max(1, *case.keys, 1),
        D=case.q.shape[3],
        Dv=case.v.shape[3],
        dtype=DTYPES[case.q.dtype],
        q=tensor(case.q, packed),
        k=tensor(case.k, case.key_offsets is not None),
        v=tensor(case.v, case.key_offsets is not None),
        query_offsets=array(case.query_offsets),
        key_offsets=array(case.key_offsets),
        key_lengths=array(case.key_lengths),
        alignment=1 if case.causal == 2 else 0,
        causal=1 if case.causal else 0,
        window_left=case.window[0],
        window_right=case.window[1],
        scale=case.scale,
        softcap=case.softcap,
        lse_base_2=case.lse_base_2,
    )
    if case.pages:
        most = max(1, *(len(each) for each in case.pages), 1)
        problem.page_size, problem.most_pages = case.k.shape[2], most
        if case.flat_pages:
            problem.page_offsets = array(sums([len(each) for each in case.pages]))
            problem.page_table = array(sum(case.pages, []))
        else:
            # -1 beyond a sequence's pages: the oracle must not read these entries.
            problem.page_table = array(sum(([*each, *[-1] * (most - len(each))] for each in case.pages), []))
    if case.selected is not None:
        problem.selected, problem.most_selected = tensor(case.selected, packed), case.selected.shape[3]
    if case.slopes is not None:
        problem.alibi_slopes = case.slopes.data_ptr()
    if case.sinks is not None:
        problem.sinks = case.sinks.data_ptr()
    if case.bias is not None:
        problem.bias, problem.bias_key_stride = tensor(case.bias), case.bias.stride(3)
        problem.bias_dtype = DTYPES[case.bias.dtype]
    return problem


def forward_by_oracle(oracle, case):
    held = []
    problem, (o, lse) = attention_struct(case, held), empty_outputs(case)
    packed = case.query_offsets is not None
    problem.o, problem.lse = output(o, packed), output(lse, packed)
    call(oracle.flashcore_attention_forward, problem)
    return o, lse


def backward_by_oracle(oracle, case, d_o):
    held = []
    empty = [torch.full(each.shape, math.nan, dtype=torch.float64) for each in (case.q, case.k, case.v)]
    packed, packed_keys = case.query_offsets is not None, case.key_offsets is not None
    problem = Gradients(
        forward=attention_struct(case, held),
        d_o=tensor(d_o, packed),
        d_o_dtype=DTYPES[d_o.dtype],
        **{
            name: output(each, of)
            for name, each, of in zip(("d_q", "d_k", "d_v"), empty, (packed, packed_keys, packed_keys))
        },
    )
    if case.sinks is not None:
        empty.append(torch.full(case.sinks.shape, math.nan, dtype=torch.float64))
        problem.d_sinks = empty[-1].data_ptr()
    call(oracle.flashcore_attention_backward, problem)
    return empty


# --- Comparisons. ---


def difference(got, want, rms_counts):
    """The largest difference; infinite if NaN or an infinity is in one of the two only."""
    got, want = got.double().cpu(), want.double().cpu()
    finite = torch.isfinite(want)
    same = (torch.isnan(got) == torch.isnan(want)) & (torch.isfinite(got) == finite)
    if not same.all() or not (got[torch.isinf(want)] == want[torch.isinf(want)]).all():
        return math.inf
    got, want = got[finite], want[finite]
    if want.numel() == 0:
        return 0.0
    least = max(want.square().mean().sqrt().item(), 1e-300) if rms_counts else 1.0
    return ((got - want).abs() / want.abs().clamp(min=least)).max().item()


# What a case has, and the case as somebody computes it who has forgotten that.
FORMS = {
    "GQA": (lambda c: 1 < c.group and c.k.shape[1] > 1, lambda c: {"heads": in_turns(c)}),
    "MQA": (lambda c: 1 < c.group and c.k.shape[1] == 1, None),
    "Sq != Skv": (lambda c: c.rows != c.keys, None),
    "causal, top left": (lambda c: c.causal == 1, lambda c: {"causal": 0}),
    "causal, bottom right": (lambda c: c.causal == 2 and c.rows != c.keys, lambda c: {"causal": 1}),
    "window": (lambda c: max(c.window) >= 0, lambda c: {"window": (-1, -1)}),
    "softcap": (lambda c: c.softcap > 0, lambda c: {"softcap": 0.0}),
    "ALiBi": (lambda c: c.slopes is not None, lambda c: {"slopes": None}),
    "bias": (lambda c: c.bias is not None, lambda c: {"bias": None}),
    "sinks": (lambda c: c.sinks is not None, lambda c: {"sinks": None}),
    "lengths": (
        lambda c: c.key_lengths is not None and c.selected is None and any(c.keys),
        lambda c: {"keys": [max(0, each - 1) for each in c.keys]},
    ),
    "packed queries": (lambda c: c.query_offsets is not None, None),
    "packed keys": (lambda c: c.key_offsets is not None, None),
    "pages": (
        lambda c: c.pages is not None and any(len(each) > 1 for each in c.pages),
        lambda c: {"pages": [each[::-1] for each in c.pages]},
    ),
    "pages in one dimension": (lambda c: c.pages is not None and c.flat_pages, None),
    "selected keys": (lambda c: c.selected is not None, lambda c: {"selected": None}),
    "V in K's columns": (lambda c: c.v.data_ptr() == c.k.data_ptr(), None),
    "base-2 LSE": (lambda c: c.lse_base_2, lambda c: {"lse_base_2": False}),
}


def in_turns(case):
    return [head % case.k.shape[1] for head in range(case.q.shape[1])]


class Findings:
    def __init__(self):
        self.worst, self.cases, self.seed, self.forms = {}, {}, {}, {}

    def keep(self, seed, output, value):
        self.cases[output] = self.cases.get(output, 0) + 1
        if value >= self.worst.get(output, 0.0):
            self.worst[output], self.seed[output] = value, seed

    def keep_form(self, name, operation, shows):
        has, tried, found = self.forms.setdefault(name, {}).get(operation, (0, 0, 0))
        self.forms[name][operation] = (has + 1, tried + (shows is not None), found + bool(shows))

    def failed(self):
        above = [
            f"{name}: {value:.1e} in the case of seed {self.seed[name]}"
            for name, value in self.worst.items()
            if not value <= LIMIT
        ]
        for name, by_operation in self.forms.items():
            for operation, (_, tried, found) in by_operation.items():
                if tried and not found:
                    above.append(f"{name} omitted shows in none of {tried} cases of {operation}")
        missing = [name for name in FORMS if name not in self.forms]
        return above + [f"no case has {name}" for name in missing]


def compare_forward(oracle, seed, findings):
    case = drawn_case(seed, backward=False)
    got, want = forward_by_oracle(oracle, case), forward_by_torch(case)
    for name, a, b in zip(("O", "LSE"), got, want):
        findings.keep(seed, name, difference(a, b, name == "O"))
    for name, (has, mistake) in FORMS.items():
        if has(case):
            shows = None
            if mistake:
                wrong = forward_by_torch(dataclasses.replace(case, **mistake(case)))
                shows = any(difference(a, b, True) > SHOWS for a, b in zip(wrong, want))
            findings.keep_form(name, "attention", shows)
    compare_sdpa(seed, case, got[0], findings)


def compare_sdpa(seed, case, o, findings):
    """Compares O with PyTorch's own attention, for cases that it can compute."""
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention") or case.sinks is not None:
        return
    if case.softcap or case.selected is not None:
        return
    q, k, v, _ = leaves_of(case)
    want, got = [], []
    for b in range(len(case.rows)):
        queries = query_rows(case, q, b)
        keys, values = (of_query_heads(case, keys_of(case, each, b)) for each in (k, v))
        # Without a product, the scores are what SDPA adds to its own.
        added, seen = scores_of(case, queries * 0, keys, b)
        reached = seen.any(2).all()
        if queries.shape[1] == 0 or not reached:
            continue
        # SDPA multiplies by 1 / sqrt(D).
        scaled = queries * (case.scale * math.sqrt(queries.shape[2]))
        mask = added.masked_fill(~seen, -math.inf)
        want.append(
            torch.nn.functional.scaled_dot_product_attention(scaled[None], keys[None], values[None], mask[None])
        )
        got.append(query_rows(case, o, b)[None])
    for a, b in zip(got, want):
        findings.keep(seed, "O and SDPA's", difference(a, b, True))


def compare_backward(oracle, seed, findings):
    case = drawn_case(seed, backward=True)
    g = torch.Generator().manual_seed(seed + 1)
    d_o = drawn(g, (*case.q.shape[:3], case.v.shape[3]), seed % 2 == 0, case.q.dtype)
    got, want = backward_by_oracle(oracle, case, d_o), backward_by_torch(case, d_o)
    want[0] = only_owned(case, "queries", want[0])
    want[1], want[2] = (only_owned(case, "keys", each) for each in want[1:3])
    for name, a, b in zip(("dQ", "dK", "dV", "dSinks"), got, want):
        findings.keep(seed, name, difference(a, b, False))
    for name, (has, _) in FORMS.items():
        if has(case):
            findings.keep_form(name, "attention_backward", None)


def compare_merge(oracle, seed, findings):
    r, g = random.Random(seed), torch.Generator().manual_seed(seed)
    parts, B, H, S, Dv = r.randint(1, 9), r.randint(1, 3), r.randint(1, 5), r.randint(1, 40), r.choice([1, 16, 72, 256])
    o = torch.stack([drawn(g, (B, H, S, Dv), False, torch.float32) for _ in range(parts)])
    dtype = r.choice(list(DTYPES))
    o, base_2 = o.to(dtype), r.random() < 0.5
    lse = torch.randn(parts, B, H, S, generator=g) * 4
    empty = torch.rand(parts, B, H, S, generator=g) < 0.3
    lse[empty] = -math.inf
    values = o.float()
    values[empty] = math.nan
    o = values.to(dtype)
    merged = torch.full((B, H, S, Dv), math.nan, dtype=torch.float64)
    merged_lse = torch.full((B, H, S), math.nan, dtype=torch.float64)
    call(
        oracle.flashcore_attention_merge,
        Parts(
            **{"parts": parts, "B": B, "H": H, "S": S, "Dv": Dv},
            o_dtype=DTYPES[dtype],
            lse_dtype=DTYPES[torch.float32],
            o=Tensor(data=o.data_ptr(), **{**strides(o[0]), "count": o.numel()}),
            lse=Tensor(data=lse.data_ptr(), **{**strides(lse[0]), "count": lse.numel()}),
            o_part_stride=o.stride(0),
            lse_part_stride=lse.stride(0),
            lse_base_2=base_2,
            out_o=output(merged),
            out_lse=output(merged_lse),
        ),
    )
    natural = on_device(lse) * (math.log(2) if base_2 else 1)
    total = torch.logsumexp(natural, 0)
    any_part = total != -math.inf
    weights = torch.exp(natural - total.masked_fill(~any_part, 0)).masked_fill(on_device(empty) > 0, 0)
    want = (weights[..., None] * on_device(o).nan_to_num(0)).sum(0)
    findings.keep(seed, "merged O", difference(merged, want, True))
    findings.keep(seed, "merged LSE", difference(merged_lse, total / math.log(2) if base_2 else total, False))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", metavar="KERNELS")
    parser.add_argument("--seed", type=int, default=1, help="the seed of the first case")
    parser.add_argument(
        "--cases", type=int, default=120, help="of attention, and as many of its gradients and of merge"
    )
    parser.add_argument("--out", help="a file for the figures")
    options = parser.parse_args()
    oracle, findings = compiled_oracle(options.kernels), Findings()
    started = time.monotonic()
    for seed in range(options.seed, options.seed + options.cases):
        for compare in (compare_forward, compare_backward, compare_merge):
            compare(oracle, seed, findings)
    failed, seconds = findings.failed(), time.monotonic() - started
    where = torch.cuda.get_device_name() if DEVICE == "cuda" else "the CPU"
    print(f"PyTorch {torch.__version__} on {where}, {options.cases} seeds from {options.seed}, {seconds:.1f} s")
    print("largest difference:")
    for name, value in findings.worst.items():
        print(f"  {name:12} {value:.1e} of {findings.cases[name]} cases (seed {findings.seed[name]})")
    print("cases with a form, and how often its omission shows:")
    for name in FORMS:
        by_operation = findings.forms.get(name, {})
        has, tried, found = by_operation.get("attention", (0, 0, 0))
        gradients = by_operation.get("attention_backward", (0, 0, 0))[0]
        shows = f"{found} of {tried}" if tried else "-"
        print(f"  {name:24} attention {has:4}  gradients {gradients:4}  shows {shows}")
    print("\n".join(failed) or f"all differences are at most {LIMIT}")
    if options.out:
        figures = {
            "torch": torch.__version__,
            "device": where,
            "dtypes": [str(each) for each in DTYPES],
            "seed": options.seed,
            "seeds": options.cases,
            "seconds": round(seconds, 1),
            "limit": LIMIT,
            "worst": findings.worst,
            "cases": findings.cases,
            "forms": findings.forms,
            "failed": failed,
        }
        pathlib.Path(options.out).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf8")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
