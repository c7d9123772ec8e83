"""Calls of decode functions in the shared objects that rivals/ builds: the memory that a call needs, its plan, and the
launch on the current stream. dtypes are "fp16" and "bf16". `torch` is the module, so that importing this file does not
take PyTorch."""

import ctypes
import re
import typing

# Workspaces of FlashInfer's latent attention, as its documentation has them. The others say how much they need.
MLA_FLOAT_BYTES, MLA_INT_BYTES = 128 * 1024**2, 8 * 1024**2
NUMBERS_OF_PLAN = 18


class Missing(RuntimeError):
    """A function that an object does not have, or a case that the function does not take."""


class Sizes(typing.NamedTuple):
    B: int
    H: int
    Hkv: int
    S: int
    Skv: int
    D: int


class Target(typing.NamedTuple):
    """Which object is called, and for what."""

    torch: typing.Any
    library: typing.Any
    dtype: str
    sizes: Sizes


class Library:
    """A shared object of rivals/."""

    def __init__(self, path):
        try:
            self.path, self.loaded = str(path), ctypes.CDLL(str(path))
        except OSError as error:
            raise Missing(f"{path} can't be loaded: {error}") from error

    def function(self, name, result=ctypes.c_int):
        try:
            function = getattr(self.loaded, name)
        except AttributeError as error:
            raise Missing(f"{self.path} was built without {name}") from error
        function.restype = result
        return function

    def call(self, function, *arguments):
        """Calls a function that returns 0, a CUDA error, or -1 for a refusal, whose text FlashInfer's object has."""
        code = function(*[argument_of(each) for each in arguments])
        if code == -1:
            message = self.function("flashinfer_message", ctypes.c_char_p)().decode()
            raise Missing(re.sub(r"^Error in function '.*?' at .*?:\d+: ", "", message))
        if code:
            raise RuntimeError(f"{function.__name__} returned {code}")


def argument_of(value):
    """Tensors as their addresses and floats as fp32; None and integers as they are."""
    if hasattr(value, "data_ptr"):
        return ctypes.c_void_p(value.data_ptr())
    return ctypes.c_float(value) if isinstance(value, float) else value


def stream_of(torch):
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def multiprocessors_of(torch):
    return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count


# --- FlashAttention-3 -------------------------------------------------------------------------------------------------


def fa3_decode(target):
    """A function of (q, k, v, o) on the device: full contiguous caches [B, Skv, Hkv, D]."""
    torch, library, dtype, (B, H, Hkv, S, Skv, D) = target
    name, sms = f"fa3_decode_{dtype}_{D}", multiprocessors_of(torch)
    function, floats = library.function(name), library.function(f"{name}_floats", ctypes.c_int64)
    lse = torch.empty(B, H, S, dtype=torch.float32, device="cuda")
    semaphore = torch.zeros(1, dtype=torch.int32, device="cuda")
    scratch = torch.empty(floats(B, H, Hkv, S, Skv, sms), dtype=torch.float32, device="cuda")

    def call(q, k, v, o):
        library.call(
            function, q, k, v, o, lse, semaphore, scratch, B, H, Hkv, S, Skv, float(D**-0.5), sms, stream_of(torch)
        )

    return call


def fa3_paged(target, page, table, lengths):
    """
    A function of (q, k, v, o) on the device: pages [pages, page, Hkv, D] that `table` [B, pages of a sequence] lists.
    Lengths are read on the device. Its launches are planned here, as by get_scheduler_metadata() of FlashAttention-3.
    """
    torch, library, dtype, (B, H, Hkv, S, _, D) = target
    name, sms, pages = f"fa3_paged_{dtype}_{D}", multiprocessors_of(torch), table.shape[1]
    function, plan_function = library.function(name), library.function(f"{name}_plan")
    floats = library.function(f"{name}_floats", ctypes.c_int64)(B, H, Hkv, S, page, pages, sms)
    lse = torch.empty(B, H, S, dtype=torch.float32, device="cuda")
    scratch = torch.empty(floats, dtype=torch.float32, device="cuda")
    plan = torch.zeros(4 * ((B + 3) // 4 * 4) + 1, dtype=torch.int32, device="cuda")
    library.call(plan_function, plan, lengths, B, H, Hkv, S, page, pages, sms, stream_of(torch))
    torch.cuda.current_stream().synchronize()

    def call(q, k, v, o):
        library.call(
            *(function, q, k, v, o, lse, plan, lengths, table, scratch),
            *(B, H, Hkv, S, page, pages, k.shape[0], float(D**-0.5), sms, stream_of(torch)),
        )

    return call


# --- FlashInfer -------------------------------------------------------------------------------------------------------


class Pages(typing.NamedTuple):
    """A paged cache's list of pages. ends and lengths are on the host, pages and what ends with _there on the device."""

    page: int
    ends: typing.Any
    lengths: typing.Any
    ends_there: typing.Any
    pages: typing.Any
    rows_of_last_there: typing.Any


def pages_of(torch, page, table, lengths):
    """The list of pages of a table [B, pages of a sequence] on the device, for lengths [B] on the host, none of it 0."""
    lengths = lengths.to(torch.int32)
    counts = (lengths + page - 1) // page
    ends = torch.zeros(len(lengths) + 1, dtype=torch.int32)
    ends[1:] = counts.cumsum(0)
    used = torch.arange(table.shape[1])[None] < counts[:, None]
    pages = table[used.to(table.device)].to(torch.int32).contiguous()
    last = (lengths - 1) % page + 1
    return Pages(page, ends, lengths, ends.to(table.device), pages, last.to(table.device))


def flashinfer_decode(target, kind, pages, *, for_other_lengths=True):
    """
    A function of (q, k, v, o) on the device: q and o [B, S, H, D], pages [pages, page, Hkv, D]. kind: "decode", on CUDA
    cores, or "tensor_cores". Planned here, as BatchDecodeWithPagedKVCacheWrapper.plan() does: with `for_other_lengths` as
    with use_cuda_graph, otherwise for these lengths only.
    """
    torch, library, dtype, (B, H, Hkv, S, _, D) = target
    if kind == "decode" and S > 1:
        raise Missing("only the kernel on tensor cores takes several queries")
    name, graph = f"flashinfer_{kind}_{dtype}_{D}", int(for_other_lengths)
    function, plan_function = library.function(name), library.function(f"{name}_plan")
    float_bytes, int_bytes = ctypes.c_int64(), ctypes.c_int64()
    given = (B, H, Hkv, S, pages.page, graph)
    library.call(
        library.function(f"{name}_bytes"), pages.ends, *given, ctypes.byref(float_bytes), ctypes.byref(int_bytes)
    )
    floats, ints, pinned = workspaces(torch, float_bytes.value, int_bytes.value)
    plan = (ctypes.c_int64 * NUMBERS_OF_PLAN)()
    library.call(
        *(plan_function, pages.ends, *given, floats, ctypes.c_int64(floats.numel())),
        *(ints, pinned, ctypes.c_int64(ints.numel()), plan, stream_of(torch)),
    )
    torch.cuda.current_stream().synchronize()
    query_ends = torch.arange(B + 1, dtype=torch.int32, device="cuda") * S

    def call(q, k, v, o):
        library.call(
            *(function, q, k, v, o, query_ends, pages.ends_there, pages.pages, pages.rows_of_last_there),
            *(floats, ints, plan, B, H, Hkv, S, pages.page, float(D**-0.5), stream_of(torch)),
        )

    return call


def flashinfer_mla(target, pages, scale):
    """
    A function of (q, cache, o) on the device: q [B, S, H, 576], cache [pages, page, 576], o [B, S, H, 512]. Planned here,
    as BatchMLAPagedAttentionWrapper.plan() does.
    """
    torch, library, dtype, (B, H, _, S, _, _) = target
    function = library.function(f"flashinfer_mla_{dtype}")
    floats, ints, pinned = workspaces(torch, MLA_FLOAT_BYTES, MLA_INT_BYTES)
    plan = (ctypes.c_int64 * NUMBERS_OF_PLAN)()
    library.call(
        *(library.function(f"flashinfer_mla_{dtype}_plan"), pages.ends, pages.lengths, B, H, S),
        *(floats, ctypes.c_int64(floats.numel()), ints, pinned, ctypes.c_int64(ints.numel()), plan, stream_of(torch)),
    )
    torch.cuda.current_stream().synchronize()

    def call(q, cache, o):
        library.call(
            *(function, q, cache, o, pages.pages, floats, ints, plan),
            *(H, S, pages.page, float(scale), stream_of(torch)),
        )

    return call


def workspaces(torch, float_bytes, int_bytes):
    """Memory for partial results and for the plan on the device, and for the plan on the host."""
    floats, ints = (torch.zeros(max(16, each), dtype=torch.uint8, device="cuda") for each in (float_bytes, int_bytes))
    return floats, ints, torch.empty(ints.numel(), dtype=torch.uint8, pin_memory=True)
