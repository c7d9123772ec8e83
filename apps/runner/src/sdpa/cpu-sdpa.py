"""Runs tools/sdpa.py with the PyTorch of this Python on a CPU, for tests: its calls to CUDA do nothing, and a graph
takes 20 us."""

import contextlib
import importlib
import os
import runpy
import sys
import types

# Rivals are called after this file, which a test may fill with Python modules of its own.
sys.path.insert(0, os.environ.get("PYTHON_FAKE_MODULES", ""))
import torch


class Event:
    def __init__(self, enable_timing):
        pass

    def record(self):
        pass

    def synchronize(self):
        pass

    def elapsed_time(self, _):
        return 0.02


def on_cpu(function):
    return lambda *arguments, device=None, **options: function(*arguments, **options)


for name in ("empty", "zeros", "ones", "full"):
    setattr(torch, name, on_cpu(getattr(torch, name)))
torch.Tensor.cuda = torch.Tensor.normal_ = lambda self: self
torch.OutOfMemoryError = torch.cuda.OutOfMemoryError
stream = types.SimpleNamespace(cuda_stream=0)
for name, value in {
    "is_available": lambda: True,
    "set_device": lambda _: None,
    "current_device": lambda: 0,
    "set_stream": lambda _: None,
    "current_stream": lambda: stream,
    "Stream": lambda: stream,
    "Event": Event,
    "synchronize": lambda: None,
    "_sleep": lambda _: None,
    "empty_cache": lambda: None,
    "get_device_properties": lambda _: types.SimpleNamespace(L2_cache_size=1024, name="CPU", multi_processor_count=1),
    "CUDAGraph": lambda: types.SimpleNamespace(replay=lambda: None),
    "graph": lambda _graph, stream: contextlib.nullcontext(),
}.items():
    setattr(torch.cuda, name, value)
tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../tools/sdpa.py")
sys.path.insert(0, os.path.dirname(tool))
importlib.invalidate_caches()
runpy.run_path(tool, run_name="__main__")
