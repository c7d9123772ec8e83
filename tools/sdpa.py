#!/usr/bin/env python3
"""Measures PyTorch's scaled_dot_product_attention, backend by backend, with flashcore's protocol for kernels.

The process lives as long as its parent, because PyTorch takes seconds to load. One JSON object per line on standard
input, one answer per line on standard output: {"id": …, "ok": true, …} or {"id": …, "ok": false, "reason": "NO_TORCH" |
"NO_CUDA" | "BAD_REQUEST" | "FAILED", "message": …}.

  open     {ordinal}                                    -> {torch, cuda, cudnn, device, backends}
  prepare  {shape, dtype, modes, launchesPerSample}    -> {backends: [{name, available, reason, launchesPerSample}]}
  round    {backend, mode, seconds, maxSamples}         -> {samplesUs}
  parity   {shape, dtype, path}                              -> {backends: [{name, available, reason, maxAbsDifference, meanAbsDifference, maxAbsError, meanAbsError}]}
  release  {}                                           -> {}

shape is {batch, heads, sequenceLength, headDim, causal}; tensors are [B, H, S, D] contiguous of dtype (PyTorch's name
of it), scale = 1/sqrt(D).
hot: time / n of a captured graph of n calls, each with its own output and its own combination of heads from a pool.
cold: an event pair around one call, after writing twice the L2's size. Before every sample of either, inputs are drawn
and outputs filled; a spinning kernel holds the stream until everything timed is enqueued, so that host time is not in
the sample.
"""

import json
import os
import random
import statistics
import sys
import time
import warnings

# Libraries may print to stdout, which must not mix with the answers.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

HOT_SAMPLE_US = 2000
MAX_HOT_LAUNCHES = 200
CALIBRATION_SAMPLES = 9
# Enqueueing a replay takes less than this.
HOT_HOLD_US = 200
# Same values as in apps/runner/worker/messages/launch-pool.ts: the parts of Q, K and V that the calls of a graph share,
# and those that each call has to itself.
POOL_BYTES = 24 * 1024**2
OWN_BYTES = 1024**3
ALIGNMENT = 16
# torch.cuda._sleep spins for clock cycles; no NVIDIA GPU runs faster than about 3 GHz.
CYCLES_PER_US = 3000
BACKENDS = {"flash": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}


class RequestError(Exception):
    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


def load_torch():
    try:
        import torch
    except ImportError as error:
        raise RequestError("NO_TORCH", f"{sys.executable} has no PyTorch: {error}") from error
    if not torch.cuda.is_available():
        raise RequestError(
            "NO_CUDA", f"PyTorch {torch.__version__} sees no CUDA device (built for CUDA {torch.version.cuda})"
        )
    return torch


class Session:
    """The device, and the backends prepared for one shape."""

    def __init__(self):
        self.torch = None
        self.prepared = {}
        self.flush = None

    def open(self, ordinal):
        self.torch = torch = load_torch()
        torch.cuda.set_device(ordinal)
        properties = torch.cuda.get_device_properties(ordinal)
        # The only stream, because calls in a second one make every graph of a process slower (docs/measuring.md).
        torch.cuda.set_stream(torch.cuda.Stream())
        self.flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda")
        self.events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
        return {
            "torch": torch.__version__,
            "cuda": torch.version.cuda or "",
            "cudnn": cudnn_version(torch),
            "device": properties.name,
            "backends": list(BACKENDS),
        }

    def prepare(self, shape, dtype, modes, launchesPerSample):
        self.release()
        torch = self.require_torch()
        size = (shape["batch"], shape["heads"], shape["sequenceLength"], shape["headDim"])
        kind = getattr(torch, dtype)
        answer = []
        for name in BACKENDS:
            backend = Backend(torch, name, size, kind, shape["causal"])
            reason = backend.attempt(backend.try_once) or backend.attempt(
                lambda: backend.prepare(modes, launchesPerSample, self.events)
            )
            if reason == "":
                self.prepared[name] = backend
            answer.append(
                {"name": name, "available": reason == "", "reason": reason, "launchesPerSample": backend.launches}
            )
        return {"backends": answer}

    def round(self, backend, mode, seconds, maxSamples):
        if backend not in self.prepared:
            raise RequestError("BAD_REQUEST", f"Prepare a shape that {backend} takes before its round")
        return {"samplesUs": self.prepared[backend].round(mode, seconds, maxSamples, self.flush, self.events)}

    def parity(self, shape, dtype, path):
        """Runs every backend on the inputs of a file: its difference from O and its error against the reference. The
        file has Q, K, V and O (of dtype), then the reference (fp64)."""
        torch = self.require_torch()
        size = (shape["batch"], shape["heads"], shape["sequenceLength"], shape["headDim"])
        with open(path, "rb") as file:
            data = bytearray(file.read())
        count = size[0] * size[1] * size[2] * size[3]
        tensors = torch.frombuffer(data, dtype=getattr(torch, dtype), count=4 * count)
        *inputs, output = tensors.reshape(4, *size).cuda()
        reference = torch.frombuffer(data, dtype=torch.float64, offset=tensors.nbytes).reshape(size).cuda()
        answer = []
        for name in BACKENDS:
            backend = Backend(torch, name, size, inputs[0].dtype, shape["causal"])
            figures = {}
            reason = backend.attempt(lambda: figures.update(backend.against(inputs, output, reference)))
            answer.append({"name": name, "available": reason == "", "reason": reason, **figures})
        return {"backends": answer}

    def release(self):
        self.prepared = {}
        if self.torch:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()
        return {}

    def require_torch(self):
        if self.torch is None:
            raise RequestError("BAD_REQUEST", "Send open before anything else")
        return self.torch


class Pool:
    """Heads of Q, K and V for n calls: no two calls have the same pair of a head of Q and a head of K and V."""

    def __init__(self, torch, size, dtype, launches):
        batch, heads, length, width = size
        count, head_bytes = batch * heads, length * width * dtype.itemsize
        most = max(2 * count, POOL_BYTES // (3 * head_bytes))
        own = count * head_bytes
        self.launches = max(1, min(launches, 2 * (most - count) + 1, OWN_BYTES // own))
        if head_bytes % ALIGNMENT != 0:
            self.launches = 1
        spare = (self.launches - 1 + 1) // 2
        self.size, self.count = size, count
        self.tensors = [torch.empty((count + spare, length, width), dtype=dtype, device="cuda") for _ in range(3)]
        distances = list(range(-spare, spare + 1))
        random.shuffle(distances)
        self.places = []
        for distance in distances[: self.launches]:
            q = random.randint(max(0, -distance), spare - max(0, distance))
            self.places.append((q, q + distance))

    def inputs(self, index):
        q, kv = self.places[index]
        return [
            tensor[first : first + self.count].view(self.size)
            for tensor, first in zip(self.tensors, (q, kv, kv), strict=True)
        ]

    def renew(self, outputs):
        """Writes new values, inputs last, so that as much of them as fits is in L2."""
        for tensor in (*outputs, *self.tensors):
            tensor.normal_()


class Backend:
    """One SDPA backend on one shape."""

    def __init__(self, torch, name, size, dtype, causal):
        self.torch, self.name, self.size, self.dtype, self.causal = torch, name, size, dtype, causal
        self.kind = getattr(torch.nn.attention.SDPBackend, BACKENDS[name])
        self.launches = 0
        self.graph = None
        self.outputs = []
        self.hold_cycles = 0
        self.single = Pool(torch, size, dtype, 1)
        self.pool = self.single

    def call(self, inputs):
        q, k, v = inputs
        return self.torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

    def selected(self):
        return self.torch.nn.attention.sdpa_kernel([self.kind])

    def against(self, inputs, output, reference):
        with self.selected():
            own = self.call(inputs).double()
        difference, error = (own - output.double()).abs(), (own - reference).abs()
        return {
            "maxAbsDifference": difference.max().item(),
            "meanAbsDifference": difference.mean().item(),
            "maxAbsError": error.max().item(),
            "meanAbsError": error.mean().item(),
        }

    def attempt(self, work):
        """Runs `work` on this backend only; returns why it failed, or an empty text. Errors: RuntimeError if the device
        is lost, so that no backend can go on."""
        torch = self.torch
        stream = torch.cuda.current_stream()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                work()
                torch.cuda.synchronize()
                return ""
            # The math backend stores all of S x S.
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                return str(error).split(". ")[0]
            # "No available kernel" (the warnings have the reasons), a missing cuDNN plan, or a call that can't be
            # captured.
            except RuntimeError as error:
                # A failed capture leaves its own stream selected.
                torch.cuda.set_stream(stream)
                torch.cuda.synchronize()
                reasons = (
                    [str(each.message).split(" (Triggered")[0] for each in said]
                    if "No available kernel" in str(error)
                    else []
                )
                return "; ".join(reasons) or str(error).strip().splitlines()[0]

    def try_once(self):
        self.single.renew([])
        with self.selected():
            self.call(self.single.inputs(0))

    def prepare(self, modes, launches_per_sample, events):
        if "hot" in modes:
            wanted = launches_per_sample or self.hot_launches(events)
            self.pool = Pool(self.torch, self.size, self.dtype, wanted)
            self.launches = self.pool.launches
            self.graph, self.outputs = self.capture(self.pool)
        if "cold" in modes:
            self.hold_cycles = int(3 * self.host_us() * CYCLES_PER_US)

    def capture(self, pool):
        """A graph with one call per set of inputs in the pool, and the calls' outputs."""
        with self.selected():
            for _ in range(3):
                self.call(pool.inputs(0))
            self.torch.cuda.synchronize()
            graph = self.torch.cuda.CUDAGraph()
            # In the same stream as everything else: docs/measuring.md.
            with self.torch.cuda.graph(graph, stream=self.torch.cuda.current_stream()):
                outputs = [self.call(pool.inputs(index)) for index in range(pool.launches)]
        return graph, outputs

    def hot_launches(self, events):
        single, outputs = self.capture(self.single)
        us = statistics.median(
            self.time_graph(single, self.single, outputs, events) for _ in range(CALIBRATION_SAMPLES)
        )
        return max(1, min(MAX_HOT_LAUNCHES, round(HOT_SAMPLE_US / us)))

    def host_us(self):
        """Host time of one call, microseconds."""
        samples = []
        with self.selected():
            for _ in range(CALIBRATION_SAMPLES):
                self.torch.cuda.synchronize()
                started = time.perf_counter()
                self.call(self.single.inputs(0))
                samples.append((time.perf_counter() - started) * 1e6)
        return statistics.median(samples)

    def time_graph(self, graph, pool, outputs, events):
        start, end = events
        # Every replay has its own inputs and outputs, like the runner's.
        pool.renew(outputs)
        self.torch.cuda._sleep(HOT_HOLD_US * CYCLES_PER_US)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def time_isolated(self, flush, events):
        start, end = events
        self.single.renew([])
        flush.zero_()
        self.torch.cuda._sleep(self.hold_cycles)
        start.record()
        self.call(self.single.inputs(0))
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def round(self, mode, seconds, max_samples, flush, events):
        if mode == "hot":
            if self.graph is None:
                raise RequestError("BAD_REQUEST", "Prepare the shape with mode hot before its round")
            take = lambda: self.time_graph(self.graph, self.pool, self.outputs, events) / self.launches  # noqa: E731
        else:
            take = lambda: self.time_isolated(flush, events)  # noqa: E731
        samples = []
        until = time.perf_counter() + seconds
        with self.selected():
            # The first sample pays for the switch between processes on the device.
            take()
            while len(samples) < max_samples:
                samples.append(take())
                if time.perf_counter() > until:
                    break
        return samples


def cudnn_version(torch):
    version = torch.backends.cudnn.version()
    # 91900 is 9.19.0.
    return f"{version // 10000}.{version % 10000 // 100}.{version % 100}" if version else ""


def answer(session, request):
    operations = {
        "open": session.open,
        "prepare": session.prepare,
        "round": session.round,
        "parity": session.parity,
        "release": session.release,
    }
    operation = request.pop("op", None)
    if operation not in operations:
        raise RequestError("BAD_REQUEST", f"Name an operation: {', '.join(operations)}; got {operation!r}")
    try:
        return operations[operation](**request)
    except (TypeError, KeyError) as error:
        raise RequestError("BAD_REQUEST", f"{operation}: {error}") from error


def main():
    session = Session()
    for line in sys.stdin:
        identity = None
        try:
            request = json.loads(line)
            identity = request.pop("id", None)
            reply = {"id": identity, "ok": True, **answer(session, request)}
        except json.JSONDecodeError as error:
            reply = {
                "id": None,
                "ok": False,
                "reason": "BAD_REQUEST",
                "message": f"Wanted one JSON object a line: {error}",
            }
        except RequestError as error:
            reply = {"id": identity, "ok": False, "reason": error.reason, "message": str(error)}
        # PyTorch reports out of memory, faults and its own limits as RuntimeError.
        except (RuntimeError, OSError, ValueError) as error:
            reply = {"id": identity, "ok": False, "reason": "FAILED", "message": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")


if __name__ == "__main__":
    main()
