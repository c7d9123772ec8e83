"""For tests: prints the arguments that rival_objects.py passes to shared objects, as JSON, without PyTorch or an
object. Tensors are their names: those given below, or the function that made them and its arguments."""

import ctypes
import json
import pathlib
import sys
import types

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import rival_objects


class Tensor:
    def __init__(self, name, elements=1):
        self.name, self.elements = name, elements

    def data_ptr(self):
        return self

    def numel(self):
        return self.elements

    def __mul__(self, factor):
        return Tensor(f"{self.name} * {factor}")


def maker(name):
    return lambda *dims, dtype, **_options: Tensor(f"{name} {dims} {dtype}", dims[0])


made = {name: maker(name) for name in ("empty", "zeros", "arange")}
stream = types.SimpleNamespace(cuda_stream="stream", synchronize=lambda: None)
cuda = types.SimpleNamespace(
    current_device=lambda: 0,
    current_stream=lambda: stream,
    get_device_properties=lambda _: types.SimpleNamespace(multi_processor_count=132),
)
torch = types.SimpleNamespace(**made, cuda=cuda, float32="fp32", int32="int32", uint8="uint8")
recorded = []
# Addresses of tensors and of the stream stay what they are, so that they can be printed.
rival_objects.ctypes = types.SimpleNamespace(**{name: getattr(ctypes, name) for name in dir(ctypes)})
rival_objects.ctypes.c_void_p = lambda value: value


class Library(rival_objects.Library):
    """Records calls. Each returns 0, and functions for sizes return 77 floats, 1000 and 2000 bytes."""

    def __init__(self):
        self.path = "object"

    def function(self, name, result=ctypes.c_int):
        def call(*arguments):
            recorded.append([name, [told(each) for each in arguments]])
            if name.endswith("_bytes"):
                arguments[-2]._obj.value, arguments[-1]._obj.value = 1000, 2000
            return 77 if name.endswith("_floats") else 0

        return call


def told(value):
    if isinstance(value, Tensor):
        return value.name
    if isinstance(value, (ctypes.c_float, ctypes.c_int64)):
        return f"{type(value).__name__.removeprefix('c_')} {value.value}"
    return value if isinstance(value, (int, str)) else "out"


library, sizes = Library(), rival_objects.Sizes(B=2, H=12, Hkv=3, S=1, Skv=100, D=64)
given = [Tensor(name) for name in ("q", "k", "v", "o")]
given[1].shape = (55,)
table = Tensor("table")
table.shape = (2, 7)
host = [Tensor(name) for name in ("ends", "lengths")]
pages = rival_objects.Pages(16, *host, *[Tensor(f"{name} there") for name in ("ends", "pages", "rows of last")])


def target(dtype, sizes):
    return rival_objects.Target(torch, library, dtype, sizes)


rival_objects.fa3_decode(target("bf16", sizes))(*given)
rival_objects.fa3_paged(target("bf16", sizes), 16, table, Tensor("lengths there"))(*given)
rival_objects.flashinfer_decode(target("fp16", sizes), "decode", pages)(*given)
several = sizes._replace(S=4)
rival_objects.flashinfer_decode(target("bf16", several), "tensor_cores", pages, for_other_lengths=False)(*given)
try:
    rival_objects.flashinfer_decode(target("fp16", several), "decode", pages)
except rival_objects.Missing as error:
    recorded.append(["refused", [str(error)]])
latent = rival_objects.Sizes(B=2, H=16, Hkv=1, S=1, Skv=100, D=576)
rival_objects.flashinfer_mla(target("bf16", latent), pages, 0.25)(*given[:2], given[3])
print(json.dumps(recorded))
