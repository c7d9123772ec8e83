"""Other people's kernels that tools/sdpa.py times next to ours, one row of RIVALS each: its name, how it is found, and
for each problem which cases it takes and how it is called."""

import contextlib
import ctypes
import dataclasses
import functools
import hashlib
import importlib
import json
import math
import pathlib
import shlex
import typing

import rival_objects

BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
# Version of the functions that shared objects of rivals export. build.sh writes it into the record beside the object.
ABI = 1
HALVES = ("float16", "bfloat16")
FLASHINFER_WORKSPACE = 128 * 1024**2
PAGE = 16


class Refused(Exception):
    """Why a rival is not timed: it is not there, or it does not take the case."""


@dataclasses.dataclass
class Case:
    """A case of a problem: its values by name as attributes, and its tensors."""

    problem: str
    dtype: str
    values: dict
    tensors: list
    # True if calls read their inputs at random places of one pool, False if each call has a copy of its own.
    pooled: bool

    def __getattr__(self, name):
        """A size, which is an integer; 0 for an attribute that the problem does not have."""
        value = self.values.get(name, 0)
        return int(value) if float(value).is_integer() else value

    @property
    def inputs(self):
        return [each for each in self.tensors if each["direction"] == "in"]

    @property
    def outputs(self):
        return [each for each in self.tensors if each["direction"] == "out"]

    @property
    def window(self):
        return int(self.values.get("window", -1))

    def refuse_forms(self, *names):
        """Refuses a case that has one of these attributes."""
        for name in names:
            if name == "window" and self.window >= 0 or name != "window" and getattr(self, name):
                raise Refused(f"{name} is not supported")

    def refuse_layouts(self):
        for each in self.tensors:
            if each.get("layout"):
                raise Refused(f"{each['name']} is stored in the order {each['layout']} of its axes, not in theirs")

    def refuse_lengths(self, inputs):
        """Refuses caches that are not full."""
        if not bool((inputs["lengths"] == self.Skv).all()):
            raise Refused("sequences of different lengths are not supported")


@dataclasses.dataclass
class Host:
    """Where rivals are found."""

    torch: typing.Any
    # The folder of shared objects, and the one of flashcore, which has the scripts that build them.
    folder: pathlib.Path
    root: pathlib.Path
    # True while a rival is checked: its outputs are then filled with poison, because other memory may still hold the
    # correct answer of an earlier rival.
    poisons: bool = False

    def output(self, dims, like):
        """Memory for an output that the rival writes."""
        if self.poisons:
            return self.torch.full(dims, math.nan, dtype=like.dtype, device=like.device)
        return self.torch.empty(dims, dtype=like.dtype, device=like.device)


@dataclasses.dataclass(frozen=True)
class Form:
    """One problem of a rival."""

    dtypes: tuple
    # Raises Refused for a case that it does not take.
    refuse: typing.Callable
    # A function of (host, case, inputs) that returns a function of inputs like these. Only calls of the latter are
    # timed: each enqueues all work on the current stream and returns the outputs by name.
    prepare: typing.Callable


@dataclasses.dataclass(frozen=True)
class Rival:
    # A function of the host that returns the version, or raises Refused with the command that builds or installs it.
    find: typing.Callable
    forms: dict
    # The context in which each call must run.
    around: typing.Callable = lambda _host: contextlib.nullcontext()

    def form(self, case):
        """The form of a case. Raises Refused if there is none."""
        if case.problem not in self.forms:
            raise Refused(f"{case.problem} is not among its problems: {', '.join(self.forms) or 'none'}")
        form = self.forms[case.problem]
        if case.dtype not in form.dtypes:
            raise Refused(f"{case.dtype} is not among its dtypes: {', '.join(form.dtypes)}")
        form.refuse(case)
        return form


# --- PyTorch's SDPA ---------------------------------------------------------------------------------------------------


def pytorch(host):
    version = host.torch.backends.cudnn.version()
    # 91900 is 9.19.0.
    cudnn = f"{version // 10000}.{version % 10000 // 100}.{version % 100}" if version else ""
    return f"PyTorch {host.torch.__version__}, cuDNN {cudnn}"


def sdpa(host, inputs, *, causal, mask=None):
    q, k, v = inputs
    # Only what is needed, because not every version has every option.
    options = {} if mask is None else {"attn_mask": mask}
    if q.shape[1] != k.shape[1]:
        options["enable_gqa"] = True
    return host.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, **options)


def last_rows(host, case, device):
    """The mask of queries that are the last of the sequence; None if it hides nothing."""
    if case.S == 1:
        return None
    return host.torch.ones(case.S, case.Skv, dtype=host.torch.bool, device=device).tril(case.Skv - case.S)


def sdpa_attention(host, case, inputs):
    from_the_end = case.causal == 2 and case.S != case.Skv
    mask = last_rows(host, case, inputs["Q"].device) if from_the_end else None
    causal = case.causal != 0 and not from_the_end
    return lambda inputs: {"O": sdpa(host, heads_first(inputs), causal=causal, mask=mask)}


def sdpa_decode(host, case, inputs):
    case.refuse_lengths(inputs)
    mask = last_rows(host, case, inputs["Q"].device)

    def call(inputs):
        return {"O": sdpa(host, heads_first(inputs, swapped=True), causal=False, mask=mask).transpose(1, 2)}

    return call


def heads_first(inputs, swapped=False):
    """Q, K and V as [B, H, S, D]; swapped: they are [B, S, H, D]."""
    return [inputs[name].transpose(1, 2) if swapped else inputs[name] for name in "QKV"]


def flash_backward(host, case, inputs):
    """The operator behind the gradient of SDPA's flash backend, because a graph captures no call of autograd."""
    causal, aten = case.causal != 0, host.torch.ops.aten
    _, _, *about, _ = aten._scaled_dot_product_flash_attention(*heads_first(inputs), 0.0, causal)
    ends_and_lengths, seeds = about[:4], about[4:]

    def call(inputs):
        return gradients(
            aten._scaled_dot_product_flash_attention_backward(
                *(inputs["dO"], *heads_first(inputs), inputs["O"], inputs["LSE"]),
                *(*ends_and_lengths, 0.0, causal, *seeds),
            )
        )

    return call


def cudnn_backward(host, case, inputs):
    """The same of its cuDNN backend, which has an LSE of its own kind."""
    causal, aten = case.causal != 0, host.torch.ops.aten
    _, lse, *about, _ = aten._scaled_dot_product_cudnn_attention(*heads_first(inputs), None, True, 0.0, causal, False)
    ends_and_lengths, seeds = about[:4], about[4:]

    def call(inputs):
        return gradients(
            aten._scaled_dot_product_cudnn_attention_backward(
                *(inputs["dO"], *heads_first(inputs), inputs["O"], lse, *seeds, None),
                *(*ends_and_lengths, 0.0, causal),
            )
        )

    return call


BACKWARD = {"flash": flash_backward, "cudnn": cudnn_backward}


def gradients(outputs):
    return dict(zip(("dQ", "dK", "dV"), outputs, strict=False))


def refuse_sdpa(case):
    case.refuse_forms("window", "softcap", "sinks", "alibi", "bias")


def refuse_sdpa_backward(case):
    if case.causal == 2 and case.S != case.Skv:
        raise Refused("its causal mask begins at the first key")
    if case.H != case.Hkv:
        raise Refused("it has no gradient of shared heads: PyTorch repeats K and V before the call")


def sdpa_rival(backend):
    every = (*HALVES, "float32")
    forms = {
        "attention": Form(every, refuse_sdpa, sdpa_attention),
        "attention_decode": Form(every, refuse_sdpa, sdpa_decode),
    }
    if backend in BACKWARD:
        forms["attention_backward"] = Form(HALVES, refuse_sdpa_backward, BACKWARD[backend])

    def around(host):
        attention = host.torch.nn.attention
        return attention.sdpa_kernel([getattr(attention.SDPBackend, BACKENDS[backend])])

    return Rival(pytorch, forms, around)


# --- FlashAttention-3 -------------------------------------------------------------------------------------------------


@functools.cache
def digest(path, _changed):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def object_path(host, name):
    return host.folder / f"{name}.so"


def build_command(host, name, build):
    script = host.root / "rivals" / name / "build.sh"
    return f"build it with `{shlex.quote(str(script))} {build} {shlex.quote(str(object_path(host, name)))}`"


def shared_object(name, build):
    """Finds NAME.so and its record NAME.so.json, which `build` writes."""

    def find(host):
        path = object_path(host, name)
        command = build_command(host, name, build)
        if not path.is_file():
            raise Refused(f"not found: there is no {path}; {command}")
        record = pathlib.Path(f"{path}.json")
        try:
            built = json.loads(record.read_text(encoding="utf8"))
            abi, sha, commits = built["abi"], built["sha256"], built["commits"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Refused(f"{record} does not say how {path.name} was built ({error!r}); {command}") from error
        if abi != ABI:
            raise Refused(f"{path} has version {abi} of its functions, this flashcore calls version {ABI}; {command}")
        if digest(path, path.stat().st_mtime_ns) != sha:
            raise Refused(f"{path} is not the file that {record.name} describes; {command}")
        told = ", ".join(f"{project} {commit[:8]}" for project, commit in commits.items())
        return f"{told}, build {sha[:8]}, nvcc {built.get('nvcc', 'unknown')}"

    return find


@functools.cache
def loaded(path, _digest):
    return ctypes.CDLL(str(path))


def function_of(host, name):
    """A function of FlashAttention-3's shared object. Raises Refused if it was built without it."""
    path = host.folder / "flash_attention_3.so"
    try:
        return getattr(loaded(path, digest(path, path.stat().st_mtime_ns)), name)
    except AttributeError as error:
        raise Refused(f"{path} was built without {name}: build it again with this width and pass") from error
    except OSError as error:
        raise Refused(f"{path} can't be loaded: {error}") from error


SHORT_NAMES = {"float16": "fp16", "bfloat16": "bf16"}
FA3_WIDTHS = {64: 64, 96: 96, 128: 128, 192: 128, 256: 256}


def refuse_fa3(case):
    case.refuse_layouts()
    case.refuse_forms("window", "softcap", "sinks", "alibi", "bias")
    if case.causal == 1 and case.S != case.Skv:
        raise Refused("its causal mask ends at the last key")
    if FA3_WIDTHS.get(case.D) != case.Dv:
        raise Refused(f"D={case.D} with Dv={case.Dv} is not among its head dimensions")


def refuse_fa3_backward(case):
    case.refuse_layouts()
    if case.causal == 1 and case.S != case.Skv:
        raise Refused("its causal mask ends at the last key")
    if case.D not in (64, 128):
        raise Refused(f"D={case.D} is not among its head dimensions, 64 and 128")


def refuse_fa3_decode(case):
    case.refuse_layouts()
    case.refuse_forms("window", "softcap", "sinks", "alibi")
    if case.D not in (64, 128, 256):
        raise Refused(f"D={case.D} is not among its head dimensions, 64, 128 and 256")


def addresses(tensors):
    return [ctypes.c_void_p(each.data_ptr()) for each in tensors]


def launch(host, function, *arguments):
    """Calls a function of a shared object on the current stream; all return 0 or a CUDA error."""
    stream = ctypes.c_void_p(host.torch.cuda.current_stream().cuda_stream)
    if code := function(*arguments, stream):
        raise RuntimeError(f"{function.__name__} returned {code}")


def multiprocessors(host):
    return host.torch.cuda.get_device_properties(host.torch.cuda.current_device()).multi_processor_count


def fa3_attention(host, case, inputs):
    function = function_of(host, f"fa3_{SHORT_NAMES[case.dtype]}_{case.D}")
    q = inputs["Q"]
    lse = host.torch.empty(case.B, case.H, case.S, dtype=host.torch.float32, device=q.device)
    semaphore = host.torch.zeros(1, dtype=host.torch.int32, device=q.device)
    sizes = (case.B, case.H, case.Hkv, case.S, case.Skv, int(case.causal != 0))
    scale, sms = ctypes.c_float(case.D**-0.5), multiprocessors(host)

    def call(inputs):
        o = host.output((case.B, case.H, case.S, case.Dv), q)
        tensors = addresses([*(inputs[name] for name in "QKV"), o, lse, semaphore])
        launch(host, function, *tensors, *sizes, scale, sms)
        return {"O": o}

    return call


def fa3_decode(host, case, inputs):
    case.refuse_lengths(inputs)
    name = f"fa3_decode_{SHORT_NAMES[case.dtype]}_{case.D}"
    function, floats = function_of(host, name), function_of(host, f"{name}_floats")
    floats.restype = ctypes.c_int64
    sizes, sms = (case.B, case.H, case.Hkv, case.S, case.Skv), multiprocessors(host)
    device, torch = inputs["Q"].device, host.torch
    lse = torch.empty(case.B, case.H, case.S, dtype=torch.float32, device=device)
    semaphore = torch.zeros(1, dtype=torch.int32, device=device)
    scratch = torch.empty(floats(*sizes, sms), dtype=torch.float32, device=device)
    scale = ctypes.c_float(case.D**-0.5)

    def call(inputs):
        o = host.output(inputs["Q"].shape, inputs["Q"])
        tensors = addresses([*(inputs[name] for name in "QKV"), o, lse, semaphore, scratch])
        launch(host, function, *tensors, *sizes, scale, sms)
        return {"O": o}

    return call


def fa3_backward(host, case, inputs):
    name = f"fa3_backward_{SHORT_NAMES[case.dtype]}_{case.D}"
    function, floats = function_of(host, name), function_of(host, f"{name}_floats")
    floats.restype = ctypes.c_int64
    sizes = (case.B, case.H, case.Hkv, case.S, case.Skv)
    scratch = host.torch.empty(floats(*sizes), dtype=host.torch.float32, device=inputs["Q"].device)
    scale, sms = ctypes.c_float(case.D**-0.5), multiprocessors(host)

    def call(inputs):
        made = {f"d{name}": host.output(inputs[name].shape, inputs[name]) for name in "QKV"}
        given = [inputs[name] for name in ("Q", "K", "V", "O", "dO", "LSE")]
        tensors = addresses([*given, *made.values(), scratch])
        launch(host, function, *tensors, *sizes, int(case.causal != 0), scale, sms)
        return made

    return call


# --- FlexAttention ----------------------------------------------------------------------------------------------------


def compiled_flex(host, case, device):
    """FlexAttention on [B, H, S, D], compiled; sinks as inference engines apply them, from the row's log-sum-exp."""
    torch = host.torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    first = case.Skv - case.S if case.causal == 2 else 0

    def sees(_b, _h, row, key):
        seen = key <= row + first
        return seen & (row + first - key <= case.window) if case.window >= 0 else seen

    def capped(score, _b, _h, _row, _key):
        return case.softcap * torch.tanh(score / case.softcap)

    mask = None
    # A single query that is the last of its sequence sees all keys.
    if case.causal and not (case.S == 1 and case.causal == 2 and case.window < 0):
        mask = create_block_mask(sees, None, None, case.S, case.Skv, device=device)

    def attention(q, k, v, sinks):
        o = flex_attention(
            *(q, k, v, capped if case.softcap else None, mask),
            enable_gqa=case.H != case.Hkv,
            return_lse=bool(case.sinks),
        )
        if not case.sinks:
            return o
        o, lse = o
        return o * torch.sigmoid(lse - sinks[:, None])[..., None].to(o.dtype)

    return torch.compile(attention, dynamic=False)


def flex_forward(host, case, inputs):
    compiled = compiled_flex(host, case, inputs["Q"].device)
    return lambda inputs: {"O": compiled(*heads_first(inputs), inputs.get("sink_logits"))}


def flex_decode(host, case, inputs):
    case.refuse_lengths(inputs)
    compiled = compiled_flex(host, case, inputs["Q"].device)

    def call(inputs):
        return {"O": compiled(*heads_first(inputs, swapped=True), inputs.get("sink_logits")).transpose(1, 2)}

    return call


def refuse_flex(case):
    case.refuse_forms("alibi", "bias")


# --- FlashInfer, and rivals that are Python modules -------------------------------------------------------------------


def module(name, package):
    def find(_host):
        try:
            return f"{name} {importlib.import_module(name).__version__}"
        except ImportError as error:
            raise Refused(f"not found: {error}; install it with `python3 -m pip install {package}`") from error

    return find


FLASHINFER_OBJECT, FLASHINFER_BUILD = "flashinfer", "FLASHINFER CUTLASS CCCL"


def flashinfer(host):
    """FlashInfer's shared object if that was built, otherwise the module."""
    if object_path(host, FLASHINFER_OBJECT).is_file():
        return shared_object(FLASHINFER_OBJECT, FLASHINFER_BUILD)(host)
    try:
        return module("flashinfer", "flashinfer-python")(host)
    except Refused as error:
        raise Refused(f"{error}, or {build_command(host, FLASHINFER_OBJECT, FLASHINFER_BUILD)}") from error


def refuse_flashinfer(case):
    case.refuse_layouts()
    case.refuse_forms("sinks", "alibi")
    if case.D not in (64, 128, 256):
        raise Refused(f"D={case.D} is not among its head dimensions, 64, 128 and 256")


def cache_in_pages(host, case, inputs):
    """The contiguous cache as pages in order."""
    torch, lengths = host.torch, inputs["lengths"].cpu()
    if int(lengths.min()) == 0:
        raise Refused("sequences without keys are not supported")
    page = next(rows for rows in (PAGE, 1) if case.Skv % rows == 0)
    pages = case.B * case.Skv // page
    table = torch.arange(pages, dtype=torch.int32, device=inputs["Q"].device).view(case.B, -1)
    return rival_objects.pages_of(torch, page, table, lengths)


def flashinfer_decode(host, case, inputs):
    """Planned before the timed call, as inference engines do. On tensor cores if at least four heads share K and V."""
    prepare = flashinfer_object if object_path(host, FLASHINFER_OBJECT).is_file() else flashinfer_module
    return prepare(host, case, inputs, cache_in_pages(host, case, inputs))


def flashinfer_object(host, case, inputs, pages):
    case.refuse_forms("window", "softcap")
    sizes = rival_objects.Sizes(case.B, case.H, case.Hkv, case.S, case.Skv, case.D)
    kind = "decode" if case.S == 1 and case.H // case.Hkv < 4 else "tensor_cores"
    try:
        library = rival_objects.Library(object_path(host, FLASHINFER_OBJECT))
        target = rival_objects.Target(host.torch, library, SHORT_NAMES[case.dtype], sizes)
        decode = rival_objects.flashinfer_decode(target, kind, pages)
    except rival_objects.Missing as error:
        raise Refused(str(error)) from error

    def call(inputs):
        o = host.output(inputs["Q"].shape, inputs["Q"])
        decode(inputs["Q"], inputs["K"], inputs["V"], o)
        return {"O": o}

    return call


def flashinfer_module(host, case, inputs, pages):
    import flashinfer

    torch, q, page = host.torch, inputs["Q"], pages.page
    workspace = torch.zeros(FLASHINFER_WORKSPACE, dtype=torch.uint8, device=q.device)
    buffers = [pages.ends_there, pages.pages, pages.rows_of_last_there]
    options = {
        "sm_scale": case.D**-0.5,
        "window_left": case.window,
        "logits_soft_cap": float(case.softcap),
        "q_data_type": q.dtype,
        "kv_data_type": q.dtype,
    }
    if case.S == 1:
        wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(
            *(workspace, "NHD", True, case.H // case.Hkv >= 4, *(each.clone() for each in buffers))
        )
        wrapper.plan(*buffers, case.H, case.Hkv, case.D, page, **options)
    else:
        starts = torch.arange(case.B + 1, dtype=torch.int32, device=q.device) * case.S
        wrapper = flashinfer.BatchPrefillWithPagedKVCacheWrapper(
            *(workspace, "NHD", True, starts.clone(), *(each.clone() for each in buffers))
        )
        wrapper.plan(starts, *buffers, case.H, case.Hkv, case.D, page, causal=True, **options)

    def call(inputs):
        caches = tuple(inputs[name].view(-1, page, case.Hkv, case.D) for name in "KV")
        rows = inputs["Q"].view(-1, case.H, case.D)
        return {"O": wrapper.run(rows, caches, out=host.output(rows.shape, rows)).view(inputs["Q"].shape)}

    return call


def refuse_mosaic(_case):
    raise Refused(
        "JAX runs its kernels on streams of its own, which no event pair and no CUDA graph of the protocol can time"
    )


RIVALS = {
    **{backend: sdpa_rival(backend) for backend in BACKENDS},
    "flash_attention_3": Rival(
        shared_object("flash_attention_3", "FLASH_ATTENTION CUTLASS"),
        {
            "attention": Form(HALVES, refuse_fa3, fa3_attention),
            "attention_decode": Form(HALVES, refuse_fa3_decode, fa3_decode),
            "attention_backward": Form(HALVES, refuse_fa3_backward, fa3_backward),
        },
    ),
    "flashinfer": Rival(
        flashinfer,
        {"attention_decode": Form(HALVES, refuse_flashinfer, flashinfer_decode)},
    ),
    "flex": Rival(
        pytorch,
        {
            "attention": Form((*HALVES, "float32"), refuse_flex, flex_forward),
            "attention_decode": Form((*HALVES, "float32"), refuse_flex, flex_decode),
        },
    ),
    "mosaic": Rival(module("jax", "'jax[cuda13]'"), {"attention": Form(HALVES, refuse_mosaic, None)}),
}
