/**
 * `fa-tui export --torch`: one Python file that makes a PyTorch operator of a kernel. The file contains the machine
 * code and launches it as the manifest says, with ctypes through the CUDA driver.
 */
import { deflateSync } from 'node:zlib';
import { dtypeNames } from './dtype-names.ts';
import {
  exportName,
  unverifiedNotice,
  verdictText,
  type ExportedCubin,
  type ExportedKernel,
} from './exported-kernel.ts';
import { pythonPlan } from './python-plan.ts';

/** Returns the file's text. */
export function torchFile(kernel: ExportedKernel): string {
  const { manifest, parameters, dtype, arch, cubins, origin, flags } = kernel;
  const names = dtypeNames(dtype);
  const notice = unverifiedNotice(kernel);
  const fromDevice = Object.entries(manifest.parameters).filter(([, { ofDevice }]) => ofDevice !== undefined);
  const about = {
    kernel: manifest.id,
    title: manifest.title,
    variant: origin.label,
    flags: flags.join(' '),
    compiler: origin.compiler,
    build: origin.buildId,
    job: origin.job,
    source_digest: origin.sourceDigest,
    runner: origin.runner,
    verdict: verdictText(kernel),
    ...(notice !== undefined && { unverified: notice }),
  };
  return `"""${docText(`${manifest.id}: ${manifest.title}`)}
${notice === undefined ? '' : `\n${docText(notice)}.\n`}
A PyTorch operator in one file: the machine code for ${arch} is in it, so that it needs PyTorch and a CUDA driver and no
compiler. Written by fa-tui export; PROVENANCE says from which build.

    from ${manifest.id} import attention
    o = attention(q, k, v, causal=True)
    attention_out(q, k, v, o, causal=True)  # into a tensor of yours
    o = attention(q, k, v, scale=0.1)       # in the place of 1 / sqrt(D)

q, k, v and o are [B, H, S, D], ${dtype} and contiguous, on one device, and begin at a multiple of 16 bytes. It runs on the
current stream, under torch.compile, and in a CUDA graph: call it once before the capture, which loads the module.
Inference only: there is no backward. Launches are prepared once for each shape and set of addresses.
"""

import base64
import collections
import ctypes
import functools
import json
import math
import threading
import warnings
import zlib
from typing import Optional

import torch

KERNEL = ${JSON.stringify(manifest.id)}
ARCH = ${JSON.stringify(arch)}
PARAMETERS = ${JSON.stringify(parameters)}
DTYPE = torch.${names.torch}
# What the kernel can be built for: least architecture, or the only one.
MIN_ARCH = ${JSON.stringify(manifest.minArch)}
EXACT_ARCH = ${manifest.exactArch ? 'True' : 'False'}
# Parameters that the build took from a device: multiprocessors.
OF_DEVICE = ${JSON.stringify(Object.fromEntries(fromDevice.map(([name, { values }]) => [name, values])))}
PROVENANCE = json.loads(${JSON.stringify(JSON.stringify(about))})
if "unverified" in PROVENANCE:
    warnings.warn(PROVENANCE["unverified"], stacklevel=2)
_ELEMENT_BYTES = ${names.bytes}
_TENSOR_MAP_TYPE = ${names.tensorMapNumber}


${pythonPlan(manifest, parameters)}

${RUNTIME.replaceAll('OPERATOR_NAME', `flashcore::${exportName(kernel)}`)}

# Machine code, by zlib and then base85, with the entries that each has; None: all.
_CUBINS = (
${cubins.map(cubinText).join('\n')}
)
`;
}

const cubinText = ({ entries, bytes }: ExportedCubin): string =>
  `    (\n${entries.length > 0 ? listText(entries) : '        None,'}\n        (\n${inLines(base85(deflateSync(bytes, { level: 9 })))}\n        ),\n    ),`;

const listText = (entries: readonly string[]): string => `        ${JSON.stringify(entries)},`;

/** Encoding for Python's base64.b85decode: RFC 1924's alphabet, four bytes in five digits. */
export function base85(bytes: Uint8Array): string {
  const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~';
  const padding = (4 - (bytes.length % 4)) % 4;
  const padded = Buffer.concat([bytes, Buffer.alloc(padding)]);
  let text = '';
  for (let at = 0; at < padded.length; at += 4) {
    let word = padded.readUInt32BE(at);
    let digits = '';
    for (let digit = 0; digit < 5; ++digit) {
      digits = alphabet[word % 85]! + digits;
      word = Math.floor(word / 85);
    }
    text += digits;
  }
  return padding === 0 ? text : text.slice(0, -padding);
}

const LINE_CHARACTERS = 104;
const inLines = (text: string): string =>
  (text.match(new RegExp(`.{1,${LINE_CHARACTERS}}`, 'g')) ?? []).map((line) => `            "${line}"`).join('\n');

/** Text for the inside of a docstring. */
const docText = (text: string): string => text.replaceAll('\\', '/').replaceAll('"""', "'''");

/** Code common to all exported files. */
const RUNTIME = String.raw`_SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
_MAX_DYNAMIC_SHARED = 8
_NON_PORTABLE_CLUSTER = 14
_LIMIT_PERSISTING_L2 = 6
_MAX_PERSISTING_L2 = 108
_MAX_ACCESS_POLICY_WINDOW = 109


class _LaunchConfig(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_uint32),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint32),
    ]


class _Driver:
    """The CUDA driver's functions that a launch needs; every call is checked."""

    def __init__(self):
        self._library = ctypes.CDLL("libcuda.so.1")
        self._library.cuGetErrorString.argtypes = [ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
        self.launch = self._library.cuLaunchKernelEx

    def call(self, name, *arguments):
        self.check(getattr(self._library, name)(*arguments), name)

    def check(self, code, name):
        if code != 0:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{KERNEL}: {name} failed: {(text.value or b'unknown error').decode()} ({code})")


class _Prepared:
    """The launches of a shape at fixed addresses; only stream and workspace change from call to call."""

    def __init__(self, loaded, launches, sizes, tensors):
        self._driver = loaded.driver
        self._sizes = tuple(max(1, size) for size in sizes.values())
        self._slots = {name: ctypes.c_void_p() for name in sizes}
        self._launches = [self._prepare(loaded, launch, tensors) for launch in launches]

    def _prepare(self, loaded, launch, tensors):
        values = [loaded.value(argument, tensors, self._slots) for argument in launch.arguments]
        parameters = (ctypes.c_void_p * max(1, len(values)))(*[address for address, _ in values])
        attributes = loaded.attributes(launch, tensors)
        block = ctypes.create_string_buffer(b"".join(attributes) or b"\0")
        config = _LaunchConfig(
            (ctypes.c_uint32 * 3)(*launch.grid),
            (ctypes.c_uint32 * 3)(*launch.block),
            launch.shared_bytes,
            None,
            ctypes.addressof(block) if attributes else None,
            len(attributes),
        )
        # The last item keeps alive what the others point to.
        return config, (ctypes.byref(config), loaded.function(launch), parameters, None), (values, block)

    def run(self, device, stream):
        # Kept until the launches are queued: PyTorch reuses memory in the order of the stream.
        held = [torch.empty(size, dtype=torch.uint8, device=device) for size in self._sizes]
        for slot, tensor in zip(self._slots.values(), held):
            slot.value = tensor.data_ptr()
        for config, arguments, _ in self._launches:
            config.stream = stream
            code = self._driver.launch(*arguments)
            if code != 0:
                self._driver.check(code, "cuLaunchKernelEx")


class _Loaded:
    """The modules on one device, and their entries."""

    def __init__(self, index):
        self.driver = _Driver()
        self._functions = {}
        self._index = index
        self.bind()
        self._modules = [(entries, self._load(text)) for entries, text in _CUBINS]

    def bind(self):
        """A thread that has not used the device yet has no context, and PyTorch's is the primary one."""
        context = ctypes.c_void_p()
        self.driver.call("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            self.driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._index)
            self.driver.call("cuCtxSetCurrent", context)

    def _load(self, text):
        module = ctypes.c_void_p()
        self.driver.call("cuModuleLoadData", ctypes.byref(module), zlib.decompress(base64.b85decode(text)))
        return module

    def function(self, launch):
        if launch.entry not in self._functions:
            function = ctypes.c_void_p()
            module = next(module for entries, module in self._modules if entries is None or launch.entry in entries)
            self.driver.call("cuModuleGetFunction", ctypes.byref(function), module, launch.entry.encode())
            if launch.cluster is not None:
                self.driver.call("cuFuncSetAttribute", function, _NON_PORTABLE_CLUSTER, 1)
            self._functions[launch.entry] = [function, 48 * 1024]
        known = self._functions[launch.entry]
        if launch.shared_bytes > known[1]:
            self.driver.call("cuFuncSetAttribute", known[0], _MAX_DYNAMIC_SHARED, launch.shared_bytes)
            known[1] = launch.shared_bytes
        return known[0]

    def value(self, argument, tensors, workspace):
        """Address of an argument's bytes, and what keeps them alive."""
        kind, value = argument[:2]
        if kind == "tensor_map":
            return self._tensor_map(tensors[value], *argument[2:])
        if kind == "int32":
            held = ctypes.c_int32(value)
        elif kind == "float32":
            held = ctypes.c_float(value)
        elif kind == "workspace":
            held = workspace[value]
        else:
            held = ctypes.c_void_p(tensors[value].data_ptr())
        return ctypes.addressof(held), held

    def _tensor_map(self, tensor, box, swizzle):
        """CUtensorMap of a tensor as [B * H, S, D]: 128 bytes, aligned to 64."""
        B, H, S, D = tensor.shape
        held = ctypes.create_string_buffer(128 + 64)
        address = (ctypes.addressof(held) + 63) // 64 * 64
        columns, rows, heads = box if len(box) == 3 else (*box, 1)
        promotion_256b = 3
        self.driver.call(
            "cuTensorMapEncodeTiled",
            ctypes.c_void_p(address),
            _TENSOR_MAP_TYPE,
            ctypes.c_uint32(3),
            ctypes.c_void_p(tensor.data_ptr()),
            (ctypes.c_uint64 * 3)(D, S, B * H),
            (ctypes.c_uint64 * 2)(D * _ELEMENT_BYTES, S * D * _ELEMENT_BYTES),
            (ctypes.c_uint32 * 3)(columns, rows, heads),
            (ctypes.c_uint32 * 3)(1, 1, 1),
            0,
            _SWIZZLES[swizzle],
            promotion_256b,
            0,
        )
        return address, held

    def attributes(self, launch, tensors):
        """CUlaunchAttribute, 72 bytes each: the cluster, and the window of L2 that is to stay."""
        attributes = []
        if launch.cluster is not None:
            attributes.append(_packed(4, (ctypes.c_uint32 * 3)(*launch.cluster)))
        if launch.l2_persist:
            attributes.append(self._window([tensors[name] for name in launch.l2_persist]))
        return attributes

    def _window(self, tensors):
        low = min(tensor.data_ptr() for tensor in tensors)
        high = max(tensor.data_ptr() + tensor.nbytes for tensor in tensors)
        most = self._attribute(_MAX_ACCESS_POLICY_WINDOW)
        if high - low > most:  # too far apart for one window: the first alone
            low, high = tensors[0].data_ptr(), tensors[0].data_ptr() + tensors[0].nbytes
        kept = min(high - low, self._attribute(_MAX_PERSISTING_L2))
        self.driver.call("cuCtxSetLimit", _LIMIT_PERSISTING_L2, ctypes.c_size_t(kept))
        window = ctypes.create_string_buffer(32)
        ctypes.c_uint64.from_buffer(window, 0).value = low
        ctypes.c_uint64.from_buffer(window, 8).value = min(high - low, most)
        ctypes.c_float.from_buffer(window, 16).value = 1.0
        persisting, streaming = 2, 1
        ctypes.c_uint32.from_buffer(window, 20).value = persisting
        ctypes.c_uint32.from_buffer(window, 24).value = streaming
        return _packed(1, window)

    def _attribute(self, number):
        value = ctypes.c_int()
        self.driver.call("cuDeviceGetAttribute", ctypes.byref(value), number, self._index)
        return value.value


def _packed(kind, value):
    return (kind.to_bytes(4, "little") + bytes(4) + bytes(value)).ljust(72, b"\0")


_loaded = {}
_lock = threading.Lock()


def _module_of(device):
    with _lock:
        if device.index not in _loaded:
            _require_device(device)
            _loaded[device.index] = _Loaded(device.index)
        return _loaded[device.index]


def _require_device(device):
    properties = torch.cuda.get_device_properties(device)
    found = (properties.major, properties.minor)
    digits = "".join(digit for digit in ARCH if digit.isdigit())
    wanted = (int(digits[:-1]), int(digits[-1]))
    # Machine code runs on its own major version, at its minor one or a later; "a" is for one alone.
    fits = found == wanted if ARCH[-1] in "af" else found[0] == wanted[0] and found[1] >= wanted[1]
    if not fits:
        raise RuntimeError(f"{KERNEL} was exported for {ARCH}, and {properties.name} is sm_{found[0]}{found[1]}: {_advice(found)}")
    for name, values in OF_DEVICE.items():
        nearest = min(values, key=lambda value: abs(value - properties.multi_processor_count))
        if nearest != PARAMETERS[name]:
            warnings.warn(
                f"{KERNEL} was exported with {name}={PARAMETERS[name]}, and {properties.name} has "
                f"{properties.multi_processor_count} multiprocessors: it is right there, and {name}={nearest} may be faster",
                stacklevel=2,
            )


def _advice(found):
    """What to do on a device that the machine code is not for; an export refuses what the kernel can't be built for."""
    digits = "".join(digit for digit in MIN_ARCH if digit.isdigit())
    least = (int(digits[:-1]), int(digits[-1]))
    if EXACT_ARCH:
        return f"the kernel is for {MIN_ARCH} only; take another kernel there"
    if found < least:
        return f"the kernel needs {MIN_ARCH} or later; take another kernel there"
    return f"export it again with --arch sm_{found[0]}{found[1]}"


def _check(q, k, v, out):
    for name, tensor in (("q", q), ("k", k), ("v", v), ("out", out)):
        if tensor.device.type != "cuda":
            raise ValueError(f"{KERNEL}: {name} is on {tensor.device}: must be on a CUDA device")
        if tensor.dtype != DTYPE:
            raise TypeError(f"{KERNEL}: {name} is {tensor.dtype}: must be {DTYPE}, for example {name}.to({DTYPE})")
        if tensor.dim() != 4:
            raise ValueError(f"{KERNEL}: {name} has {tensor.dim()} dimensions: must be [B, H, S, D]")
        if not tensor.is_contiguous():
            raise ValueError(
                f"{KERNEL}: {name} is not contiguous as [B, H, S, D]: call .contiguous(), also after a transpose of [B, S, H, D]"
            )
        if tensor.shape != q.shape or tensor.device != q.device:
            raise ValueError(
                f"{KERNEL}: {name} is {list(tensor.shape)} on {tensor.device}: must be as q, {list(q.shape)} on {q.device}"
            )
        if tensor.data_ptr() % 16 != 0:
            raise ValueError(
                f"{KERNEL}: {name} begins at {tensor.data_ptr():#x}: must begin at a multiple of 16 bytes; call .clone()"
            )
    if q.numel() == 0:
        raise ValueError(f"{KERNEL}: q is {list(q.shape)}: every extent must be at least 1")
    if out.data_ptr() in (q.data_ptr(), k.data_ptr(), v.data_ptr()):
        raise ValueError(f"{KERNEL}: out is one of q, k and v: must be a tensor of its own")


_MOST_PREPARED = 512
# One cache a thread: a launch writes stream and workspace into what it prepared before the driver reads them.
_threads = threading.local()
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or (
    lambda index: torch.cuda.current_stream(index).cuda_stream
)
_current_device = getattr(torch._C, "_cuda_getDevice", None) or torch.cuda.current_device


def _run(q, k, v, o, causal, scale):
    index = q.get_device()
    shape = q.shape
    key = (q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), shape, index, causal, scale)
    known = getattr(_threads, "prepared", None)
    if known is None:
        known = _threads.prepared = {}
    prepared = known.get(key)
    # An address says nothing about dtype, shape and strides, so each call checks those.
    if prepared is None or not (
        q.dtype is DTYPE
        and k.dtype is DTYPE
        and v.dtype is DTYPE
        and o.dtype is DTYPE
        and k.shape == shape
        and v.shape == shape
        and o.shape == shape
        and q.is_contiguous()
        and k.is_contiguous()
        and v.is_contiguous()
        and o.is_contiguous()
        and index == k.get_device() == v.get_device() == o.get_device()
    ):
        _check(q, k, v, o)
        launches, sizes = plan(*shape, causal, scale)
        with torch.cuda.device(q.device):
            loaded = _module_of(q.device)
            loaded.bind()
            prepared = _Prepared(loaded, launches, sizes, {"Q": q, "K": k, "V": v, "O": o})
        if len(known) >= _MOST_PREPARED:
            known.clear()
        known[key] = prepared
    if _current_device() == index:
        prepared.run(q.device, _raw_stream(index))
    else:
        with torch.cuda.device(q.device):
            prepared.run(q.device, _raw_stream(index))


# Whether PyTorch has to see an operator: it traces, transforms or records calls.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_dispatch_modes = getattr(torch._C, "_len_torch_dispatch_stack", None)
_function_modes = getattr(torch._C, "_len_torch_function_stack", None)
_tracing = getattr(torch._C, "_get_tracing_state", None)
_transforms = getattr(getattr(torch._C, "_functorch", None), "peek_interpreter_stack", None)
_KNOWS_MODES = None not in (_dispatch_modes, _function_modes, _tracing, _transforms)


def _is_eager(*tensors):
    """Whether the call may go around PyTorch's dispatcher, which takes longer than the launch."""
    if torch.compiler.is_compiling() or not _KNOWS_MODES:
        return False
    grad = torch.is_grad_enabled()
    for tensor in tensors:
        if type(tensor) not in _PLAIN or (grad and tensor.requires_grad):
            return False
    return not (_dispatch_modes() or _function_modes() or _tracing() or _transforms())


@torch.library.custom_op("OPERATOR_NAME", mutates_args=())
def attention_op(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, scale: Optional[float] = None
) -> torch.Tensor:
    o = torch.empty_like(q)
    _run(q, k, v, o, causal, scale)
    return o


@attention_op.register_fake
def _(q, k, v, causal=False, scale=None):
    return torch.empty_like(q)


@torch.library.custom_op("OPERATOR_NAME_out", mutates_args={"out"})
def attention_out_op(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    out: torch.Tensor,
    causal: bool = False,
    scale: Optional[float] = None,
) -> None:
    _run(q, k, v, out, causal, scale)


@attention_out_op.register_fake
def _(q, k, v, out, causal=False, scale=None):
    return None


def attention(q, k, v, causal=False, scale=None):
    """softmax(q k^T * scale) v, with the mask j <= i where causal; all [B, H, S, D] of DTYPE. scale None: 1 / sqrt(D)."""
    if not _is_eager(q, k, v):
        return attention_op(q, k, v, causal, scale)
    o = torch.empty_like(q)
    _run(q, k, v, o, causal, scale)
    return o


def attention_out(q, k, v, out, causal=False, scale=None):
    """The same into a tensor of the caller's, which is as q and shares no memory with q, k and v."""
    if not _is_eager(q, k, v, out):
        return attention_out_op(q, k, v, out, causal, scale)
    _run(q, k, v, out, causal, scale)
    # As the operator does, so that autograd notices a change to a tensor that it saved.
    if not out.is_inference():
        torch.autograd.graph.increment_version(out)`;
