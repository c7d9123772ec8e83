#!/usr/bin/env python3
"""Measures PyTorch's scaled_dot_product_attention, backend by backend, and other rivals of rivals.py, with flashcore's
protocol for kernels.

The process lives as long as its parent, because PyTorch takes seconds to load. It reads one JSON object per line from
standard input, and writes one answer per line to standard output: {"id": …, "ok": true, …} or {"id": …, "ok": false,
"reason": "NO_TORCH" | "NO_CUDA" | "BAD_REQUEST" | "FAILED", "message": …}.

  open     {ordinal, folder}                           -> {torch, cuda, device}
  prepare  {rival, case, modes, launchesPerSample, drawn}
           -> {name, available, reason, version, launchesPerSample, maxAbsError}
  round    {backend, mode, seconds, maxSamples}        -> {samplesUs}
  parity   {case, path}
           -> {version, backends: [{name, available, reason, maxAbsDifference, meanAbsDifference, maxAbsError,
               meanAbsError}]}
  release  {}                                          -> {}

folder has the shared objects of rivals. case is {problem, dtype, values, tensors: [{name, direction, dims, dtype,
layout}], pooled}; dtypes are PyTorch's names of them. drawn, if given, is {path, tolerances}: a file with the case's
inputs and its right outputs in fp32, each in its problem's order and at a multiple of 16 bytes, and the limits
{absolute, relative} of outputs by name. Then the rival runs on these inputs first, and is not prepared if an output is
wrong.
hot: time / n of a captured graph of n calls, each with its own output and its own combination of heads from a pool, or
with its own copy of drawn inputs if the case is not pooled.
cold: an event pair around one call, after writing twice the L2's size. Before every sample of either, inputs are drawn
and outputs filled; a spinning kernel holds the stream until everything timed is enqueued, so that host time is not in
the sample.
"""

import json
import math
import mmap
import os
import pathlib
import random
import statistics
import sys
import time
import typing
import warnings

# Also with PYTHONSAFEPATH, which leaves out the script's own folder.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from rivals import BACKENDS, RIVALS, Case, Host, Refused, pytorch  # noqa: E402

# Libraries may print to stdout, which must not mix with the answers.
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

HOT_SAMPLE_US = 2000
MAX_HOT_LAUNCHES = 200
CALIBRATION_SAMPLES = 9
# Enqueueing a replay takes less than this many microseconds.
HOT_HOLD_US = 200
# Same values as in apps/runner/worker/messages/pool-size.ts: the parts of the inputs that the calls of a graph share,
# those that each call has to itself, and the number of copies of large inputs.
POOL_BYTES = 24 * 1024**2
OWN_BYTES = 1024**3
LEAST_SLOTS = 4
ALIGNMENT = 16
# torch.cuda._sleep spins for clock cycles; no NVIDIA GPU runs faster than about 3 GHz.
CYCLES_PER_US = 3000
ROOT = pathlib.Path(__file__).resolve().parent.parent


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
    """The device, and the rivals prepared for one case."""

    def __init__(self):
        self.torch = None
        self.prepared = {}
        self.drawn = None

    def open(self, ordinal, folder):
        self.torch = torch = load_torch()
        torch.cuda.set_device(ordinal)
        properties = torch.cuda.get_device_properties(ordinal)
        # The process uses only this stream, because calls in a second one make all of its graphs slower
        # (docs/measuring.md).
        torch.cuda.set_stream(torch.cuda.Stream())
        self.instruments = Instruments(
            flush=torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device="cuda"),
            start=torch.cuda.Event(enable_timing=True),
            end=torch.cuda.Event(enable_timing=True),
        )
        self.host = Host(torch, pathlib.Path(folder), ROOT)
        return {"torch": torch.__version__, "cuda": torch.version.cuda or "", "device": properties.name}

    def prepare(self, rival, case, modes, launchesPerSample, drawn=None):
        self.require_torch()
        self.prepared.pop(rival, None)
        subject = Subject(self.host, RIVALS[rival], Case(**case))
        figures = {}

        def ready():
            form = subject.rival.form(subject.case)
            figures["version"] = subject.rival.find(self.host)
            file = self.file_of(subject.case, drawn) if drawn else None
            subject.start(form, file)
            if file:
                figures["maxAbsError"] = subject.check(file, drawn["tolerances"])
            else:
                subject.try_once()

        reason = subject.attempt(ready) or subject.attempt(
            lambda: subject.prepare(modes, launchesPerSample, self.instruments)
        )
        if reason == "":
            self.prepared[rival] = subject
        return {
            **{"name": rival, "available": reason == "", "reason": reason, "version": ""},
            **{"launchesPerSample": subject.launches, **figures},
        }

    def file_of(self, case, drawn):
        """The tensors of a file on the device; all rivals of a case get the same."""
        if self.drawn is None or self.drawn.path != drawn["path"]:
            self.drawn = DrawnFile(self.torch, case, drawn["path"])
        return self.drawn

    def round(self, backend, mode, seconds, maxSamples):
        if backend not in self.prepared:
            raise RequestError("BAD_REQUEST", f"Prepare a case that {backend} takes before its round")
        return {"samplesUs": self.prepared[backend].round(mode, seconds, maxSamples)}

    def parity(self, case, path):
        """Runs every backend on the inputs of a file: its difference from O and its error against the reference. The
        file has Q, K, V and O (of dtype), then the reference (fp64)."""
        torch = self.require_torch()
        case = Case(**case)
        size = case.inputs[0]["dims"]
        with open(path, "rb") as file:
            data = bytearray(file.read())
        count = math.prod(size)
        tensors = torch.frombuffer(data, dtype=getattr(torch, case.dtype), count=4 * count)
        *inputs, output = tensors.reshape(4, *size).cuda()
        reference = torch.frombuffer(data, dtype=torch.float64, offset=tensors.nbytes).reshape(size).cuda()
        inputs = dict(zip("QKV", inputs, strict=True))
        answer = []
        for name in BACKENDS:
            subject = Subject(self.host, RIVALS[name], case)
            figures = {}
            reason = subject.attempt(lambda: figures.update(subject.against(inputs, output, reference)))
            answer.append({"name": name, "available": reason == "", "reason": reason, **figures})
        return {"version": pytorch(self.host), "backends": answer}

    def release(self):
        self.prepared, self.drawn = {}, None
        if self.torch:
            self.torch.cuda.synchronize()
            self.torch.cuda.empty_cache()
        return {}

    def require_torch(self):
        if self.torch is None:
            raise RequestError("BAD_REQUEST", "Send open before anything else")
        return self.torch


class DrawnFile:
    """Inputs and right outputs of a case, from a file."""

    def __init__(self, torch, case, path):
        self.path = path
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        offset = 0

        def next_tensor(dims, dtype):
            nonlocal offset
            tensor = torch.frombuffer(data, dtype=dtype, count=math.prod(dims), offset=offset).reshape(dims)
            offset += -(-tensor.nelement() * tensor.element_size() // ALIGNMENT) * ALIGNMENT
            return tensor.cuda()

        self.inputs = {
            each["name"]: in_layout(next_tensor(each["dims"], getattr(torch, each["dtype"])), each.get("layout"))
            for each in case.inputs
        }
        self.wanted = {each["name"]: next_tensor(each["dims"], torch.float32) for each in case.outputs}
        self.copied = []

    def copies(self, count):
        while len(self.copied) < count:
            self.copied.append({name: each.clone() for name, each in self.inputs.items()})
        return self.copied[:count]


def in_layout(tensor, layout):
    """The same tensor, stored in the given order of its axes."""
    if not layout:
        return tensor
    return tensor.permute(layout).contiguous().permute([layout.index(axis) for axis in range(len(layout))])


class Pool:
    """Heads of Q, K and V for n calls. No two calls have both the same head of Q and the same head of K and V."""

    def __init__(self, torch, size, dtype, launches):
        batch, heads, length, width = size
        count, head_bytes = batch * heads, length * width * torch.finfo(dtype).bits // 8
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
        places = zip("QKV", self.tensors, (q, kv, kv), strict=True)
        return {name: tensor[first : first + self.count].view(self.size) for name, tensor, first in places}

    def renew(self, outputs):
        """Writes new values. Inputs come last, so that as much of them as possible is in L2."""
        for tensor in (*outputs, *self.tensors):
            tensor.normal_()


class Slots:
    """Copies of drawn inputs for n calls. Rivals have them in common, because they take turns."""

    def __init__(self, case, file, launches):
        self.drawn = drawn = file.inputs
        input_bytes = sum(each.nelement() * each.element_size() for each in drawn.values())
        own = sum(math.prod(each["dims"]) for each in case.outputs) * next(iter(drawn.values())).element_size()
        in_cache = max(LEAST_SLOTS, POOL_BYTES // input_bytes)
        self.launches = max(1, min(launches, in_cache, OWN_BYTES // (input_bytes + own)))
        self.sets = file.copies(self.launches)

    def inputs(self, index):
        return self.sets[index]

    def renew(self, outputs):
        for tensor in outputs:
            tensor.normal_()
        for each in self.sets:
            for name, tensor in each.items():
                tensor.copy_(self.drawn[name])


class Instruments(typing.NamedTuple):
    """What a sample is taken with: memory to flush the L2 with, and the events around what is timed."""

    flush: typing.Any
    start: typing.Any
    end: typing.Any


class Subject:
    """One rival on one case."""

    def __init__(self, host, rival, case):
        self.host, self.torch, self.rival, self.case = host, host.torch, rival, case
        self.launches = 0
        self.graph = None
        self.outputs = []
        self.hold_cycles = 0

    def start(self, form, file):
        self.file = file
        self.single = self.pool = self.pool_of(1)
        with self.selected():
            self.call = form.prepare(self.host, self.case, file.inputs if file else self.single.inputs(0))

    def pool_of(self, launches):
        if not self.case.pooled:
            return Slots(self.case, self.file, launches)
        return Pool(self.torch, self.case.inputs[0]["dims"], getattr(self.torch, self.case.dtype), launches)

    def selected(self):
        return self.rival.around(self.host)

    def check(self, file, tolerances):
        """The largest error of outputs on the drawn inputs. Raises Refused if one is wrong."""
        self.host.poisons = True
        try:
            with self.selected():
                outputs = self.call(file.inputs)
        finally:
            self.host.poisons = False
        self.torch.cuda.synchronize()
        most = 0.0
        for name, wanted in file.wanted.items():
            if name not in outputs:
                raise Refused(f"wrong: it gives no {name}")
            if outputs[name].shape != wanted.shape:
                raise Refused(f"wrong: {name} has the shape {list(outputs[name].shape)}, not {list(wanted.shape)}")
            given, limits = outputs[name].float(), tolerances[name]
            error = (given - wanted).abs()
            # A NaN is not within the limit.
            right = (error <= limits["absolute"] + limits["relative"] * wanted.abs()) | (given == wanted)
            wrong = right.nelement() - int(right.sum())
            largest = error.nan_to_num(math.inf, math.inf).max().item()
            if wrong:
                raise Refused(
                    f"wrong: {wrong} of {right.nelement()} elements of {name} differ from the reference by more than"
                    f" {limits['absolute']:g} + {limits['relative']:g} |reference|, by {largest:.3g} at most"
                )
            most = max(most, largest)
        return most

    def against(self, inputs, output, reference):
        call = self.rival.form(self.case).prepare(self.host, self.case, inputs)
        with self.selected():
            own = call(inputs)["O"].double()
        difference, error = (own - output.double()).abs(), (own - reference).abs()
        return {
            "maxAbsDifference": difference.max().item(),
            "meanAbsDifference": difference.mean().item(),
            "maxAbsError": error.max().item(),
            "meanAbsError": error.mean().item(),
        }

    def attempt(self, work):
        """Runs `work`; returns why it failed, or an empty text. Errors: RuntimeError if the device is lost, so that no
        rival can continue."""
        torch = self.torch
        stream = torch.cuda.current_stream()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                work()
                torch.cuda.synchronize()
                return ""
            # The math backend stores the whole S x S matrix.
            except torch.OutOfMemoryError as error:
                torch.cuda.empty_cache()
                return str(error).split(". ")[0]
            except Refused as error:
                return str(error)
            # "No available kernel" (the warnings have the reasons), a missing cuDNN plan, a call that can't be
            # captured, or whatever a rival's code raises.
            except Exception as error:  # noqa: BLE001
                # A failed capture leaves its own stream selected.
                torch.cuda.set_stream(stream)
                torch.cuda.synchronize()
                reasons = (
                    [str(each.message).split(" (Triggered")[0] for each in said]
                    if "No available kernel" in str(error)
                    else []
                )
                kind = "" if isinstance(error, RuntimeError) else f"{type(error).__name__}: "
                return "; ".join(reasons) or kind + (str(error).strip().splitlines() or ["no reason given"])[0]

    def try_once(self):
        self.single.renew([])
        with self.selected():
            self.call(self.single.inputs(0))

    def prepare(self, modes, launches_per_sample, instruments):
        self.instruments = instruments
        if "hot" in modes:
            wanted = launches_per_sample or self.hot_launches()
            self.pool = self.pool_of(wanted)
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
            # Captured in the stream of everything else (docs/measuring.md).
            with self.torch.cuda.graph(graph, stream=self.torch.cuda.current_stream()):
                made = [self.call(pool.inputs(index)) for index in range(pool.launches)]
                outputs = [tensor for each in made for tensor in each.values()]
        return graph, outputs

    def hot_launches(self):
        single, outputs = self.capture(self.single)
        us = statistics.median(self.time_graph(single, self.single, outputs) for _ in range(CALIBRATION_SAMPLES))
        return max(1, min(MAX_HOT_LAUNCHES, round(HOT_SAMPLE_US / us)))

    def host_us(self):
        """Host time of one call in microseconds."""
        samples = []
        with self.selected():
            for _ in range(CALIBRATION_SAMPLES):
                self.torch.cuda.synchronize()
                started = time.perf_counter()
                self.call(self.single.inputs(0))
                samples.append((time.perf_counter() - started) * 1e6)
        return statistics.median(samples)

    def time_graph(self, graph, pool, outputs):
        _, start, end = self.instruments
        # Every replay has new inputs and outputs, as in the runner.
        pool.renew(outputs)
        self.torch.cuda._sleep(HOT_HOLD_US * CYCLES_PER_US)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def time_isolated(self):
        flush, start, end = self.instruments
        self.single.renew([])
        flush.zero_()
        self.torch.cuda._sleep(self.hold_cycles)
        start.record()
        self.call(self.single.inputs(0))
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def round(self, mode, seconds, max_samples):
        if mode == "hot":
            if self.graph is None:
                raise RequestError("BAD_REQUEST", "Prepare the shape with mode hot before its round")
            take = lambda: self.time_graph(self.graph, self.pool, self.outputs) / self.launches  # noqa: E731
        else:
            take = self.time_isolated
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
