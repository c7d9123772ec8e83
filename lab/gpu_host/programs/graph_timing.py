"""Code of the programs that time kernels and PyTorch's calls in turns, in CUDA graphs. Needs a GPU and PyTorch."""

import ctypes
import random

import torch

SAMPLE_US = 1000


class Driver:
    """The functions of the CUDA driver API that a launch needs."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name} failed with CUresult {code}")


def in_turns(subjects, rounds, least_calls=1):
    """
    Times subjects. A subject is a function with a name, which gets the number of the call. A sample is the time of one
    replay of a graph, divided by its number of calls, which together take SAMPLE_US. Subjects take turns, in another
    order each round, because at the power limit a subject's clock depends on the previous one. Returns the median, the
    2.5th and the 97.5th percentile of each in microseconds, and the errors of subjects that could not be captured.
    """
    events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
    graphs, missing = {}, {}
    for name, call in subjects.items():
        try:
            single, _ = captured(call, 1)
            us = sorted(time_graph(single, events) for _ in range(5))[2]
            count = max(least_calls, min(200, round(SAMPLE_US / us)))
            graphs[name] = (*captured(call, count), count)
        except RuntimeError as error:
            missing[name] = first_line(error)
    samples = {name: [] for name in graphs}
    order = list(graphs)
    turns = random.Random(rounds)
    for _ in range(rounds):
        turns.shuffle(order)
        for name in order:
            graph, _, count = graphs[name]
            samples[name].append(time_graph(graph, events) / count)
    figures = {}
    for name, values in samples.items():
        values = sorted(values)
        figures[name] = [round(values[int(p * len(values))], 3) for p in (0.5, 0.025, 0.975)]
    return figures, missing


def captured(call, count):
    """A graph of `count` calls, and the calls' outputs, which must live as long as the graph."""
    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(3):
            call(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = [call(number) for number in range(count)]
    return graph, kept


def time_graph(graph, events):
    events[0].record()
    graph.replay()
    events[1].record()
    events[1].synchronize()
    return events[0].elapsed_time(events[1]) * 1e3


def first_line(error):
    return str(error).strip().splitlines()[0][:100]
