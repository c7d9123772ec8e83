"""The part of PyTorch that tools/sdpa.py uses, without a device, for tests. FAKE_TORCH says which backend fails, where
and how: "cudnn in call: text", "efficient in capture: text", "lost"."""

import contextlib
import os
import re
import types
import warnings

__version__ = "9.9.9"
float16, uint8 = "float16", "uint8"
finfo = lambda _: types.SimpleNamespace(bits=16)  # noqa: E731
version = types.SimpleNamespace(cuda="13.0")
backends = types.SimpleNamespace(cudnn=types.SimpleNamespace(version=lambda: 91900))
faults = {
    (name, where): text
    for name, where, text in re.findall(r"(\w+) in (\w+): ([^;]*)", os.environ.get("FAKE_TORCH", ""))
}
selected = capturing = current = None


class OutOfMemoryError(RuntimeError):
    pass


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, _):
        return 0.02


@contextlib.contextmanager
def selecting(kinds):
    global selected
    selected = kinds[0]
    yield
    selected = None


@contextlib.contextmanager
def graph_capture(_graph, stream):
    global capturing
    if stream is not current:
        raise RuntimeError("captured in a second stream")
    capturing = True
    try:
        yield
    finally:
        capturing = None


def set_stream(stream):
    global current
    current = stream


def attention(q, k, v, is_causal):
    if (selected, "call") in faults:
        raise RuntimeError(faults[selected, "call"])
    if capturing and (selected, "capture") in faults:
        raise RuntimeError(faults[selected, "capture"])
    if selected == "FLASH_ATTENTION" and "no_kernel" in os.environ["FAKE_TORCH"]:
        warnings.warn("head dimension 7 is no multiple of 8 (Triggered internally at sdp.cpp:1)")
        raise RuntimeError("No available kernel. Aborting execution.")
    return Tensor()


def synchronize():
    if "lost" in os.environ["FAKE_TORCH"] and any(where == "call" for _, where in faults):
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


KINDS = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
nn = types.SimpleNamespace(
    attention=types.SimpleNamespace(
        SDPBackend=types.SimpleNamespace(**{kind: kind for kind in KINDS}), sdpa_kernel=selecting
    ),
    functional=types.SimpleNamespace(scaled_dot_product_attention=attention),
)
cuda = types.SimpleNamespace(
    is_available=lambda: True,
    set_device=lambda _: None,
    set_stream=set_stream,
    current_stream=lambda: current,
    Stream=object,
    Event=Event,
    synchronize=synchronize,
    _sleep=lambda _: None,
    empty_cache=lambda: None,
    get_device_properties=lambda _: types.SimpleNamespace(L2_cache_size=1024, name="fake"),
    CUDAGraph=lambda: types.SimpleNamespace(replay=lambda: None),
    graph=graph_capture,
)


class Tensor:
    shape = (1, 2, 64, 64)
    device = "cuda"

    def __getitem__(self, _):
        return self

    def view(self, _):
        return self

    def normal_(self):
        pass


def empty(*_, **__):
    return Tensor()
