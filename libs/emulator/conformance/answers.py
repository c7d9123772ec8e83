"""Runs every form of table.py on a device through the driver API: a GPU's libcuda.so.1, or libcuda_emu.so.

  python3 answers.py LIBRARY [--definitions FILE.json] [--against FILE.json.xz] [--out FILE.json [--digests]]

Compares the results with the definitions and with the results of another device. Exit code 1: a form does not run, or
differs by more than the table allows. --out stores the results; --digests stores only digests for forms that allow no
difference. --definitions stores the defined results, so that runs with other libraries need not compute them again,
which takes seconds.
"""

import argparse
import base64
import ctypes
import json
import lzma
import pathlib
import struct
import subprocess
import sys
import zlib

import definitions
from integers import register_bits
from table import FORMS, inputs_of, module_of

BATCH = 128


class Driver:
    """The part of the driver API that running an entry needs."""

    def __init__(self, library):
        self.cuda = ctypes.CDLL(library)
        self.call("cuInit", 0)
        device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        name = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", name, 128, device)
        self.name = name.value.decode()
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        self.version = f"{version.value // 1000}.{version.value % 1000 // 10}"
        self.device, self.context = device, ctypes.c_void_p()
        self.open()

    def open(self):
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            raise RuntimeError(f"{name} failed with {result}{self.fault()}")

    def fault(self):
        """The emulator's report of the latest fault; empty on a GPU."""
        try:
            tell = self.cuda.flashcore_emulator_last_fault
        except AttributeError:
            return ""
        text = ctypes.create_string_buffer(65536)
        tell(text, len(text))
        return ": " + text.value.decode() if text.value else ""

    def load(self, ptx):
        self.module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(self.module), ctypes.c_char_p(ptx.encode()))

    def run(self, entry, size, given, wanted_bytes):
        """Returns the output of one launch of (blocks, lanes). Bytes that the entry does not write stay 0."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, entry.encode())
        pointers = []
        for data in (given, bytes(wanted_bytes)):
            pointer = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(len(data), 8)))
            self.call("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
            pointers.append(pointer)
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(pointer) for pointer in pointers))
        self.call("cuLaunchKernel", function, size[0], 1, 1, size[1], 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        out = ctypes.create_string_buffer(wanted_bytes)
        self.call("cuMemcpyDtoH_v2", out, pointers[1], ctypes.c_size_t(wanted_bytes))
        for pointer in pointers:
            self.call("cuMemFree_v2", pointer)
        return out.raw


def answer_of(driver, number, each):
    """The launch's output as [block][result][lane]."""
    given = b"".join(struct.pack(f"<{each.lanes}Q", *lanes) for operands in inputs_of(each) for lanes in operands)
    count = each.blocks * len(each.writes) * each.lanes
    flat = struct.unpack(f"<{count}Q", driver.run(f"form{number}", (each.blocks, each.lanes), given, 8 * count))
    lanes = [list(flat[at : at + each.lanes]) for at in range(0, count, each.lanes)]
    results = len(each.writes)
    return [lanes[at : at + results] for at in range(0, len(lanes), results)]


def packed(each, answer):
    """The results, each in the width of its register, compressed and encoded as text."""
    data = bytearray()
    for results in answer:
        for kind, lanes in zip(each.writes, results, strict=True):
            width = max(register_bits(kind) // 8, 1)
            for value in lanes:
                data += value.to_bytes(8, "little")[:width]
    return base64.b64encode(zlib.compress(bytes(data), 9)).decode()


def unpacked(each, text):
    data, at, answer = zlib.decompress(base64.b64decode(text)), 0, []
    for _ in range(each.blocks):
        results = []
        for kind in each.writes:
            width = max(register_bits(kind) // 8, 1)
            results.append(
                [int.from_bytes(data[at + n * width : at + (n + 1) * width], "little") for n in range(each.lanes)]
            )
            at += each.lanes * width
        answer.append(results)
    return answer


def ask(library, chosen):
    """Runs these forms on a device. Returns its results and its errors."""
    driver = Driver(library)
    driver.load(module_of(chosen))
    answers, wrong = {}, []
    for number, each in enumerate(chosen):
        try:
            answers[each.name] = packed(each, answer_of(driver, number, each))
        except RuntimeError as error:
            wrong.append(f"{each.name}: {error}")
            driver.call("cuDevicePrimaryCtxReset_v2", driver.device)
            driver.open()
            driver.load(module_of(chosen))
    return {"device": driver.name, "driver": driver.version, "answers": answers, "wrong": wrong}


def ask_apart(library, first, count):
    """Like ask() for FORMS[first : first + count], but in a separate process, because a form may crash the driver's
    compiler."""
    command = [sys.executable, __file__, library, "--range", str(first), str(count)]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if child.returncode == 0:
        return [json.loads(child.stdout)]
    if count == 1:
        return [{"answers": {}, "wrong": [f"{FORMS[first].name}: the process ended with {child.returncode}"]}]
    half = count // 2
    return ask_apart(library, first, half) + ask_apart(library, first + half, count - half)


# A cache policy for an address range. Its bits differ from device to device, and only the device's own loads read them.
OPAQUE = "createpolicy.range."


def compared(each, answer, defined, kept):
    if each.name.startswith(OPAQUE):
        return
    before = kept.get(each.name)
    if before and before.startswith(definitions.DIGEST):
        if before != definitions.digest(each, answer):
            yield f"{each.name}: differs from what was kept, of which there is only a digest"
        before = None
    for title, other in (
        ("the definition", defined.get(each.name)),
        ("what was kept", before and unpacked(each, before)),
    ):
        said = other and definitions.difference(each, answer, other)
        if said:
            yield f"{each.name}: differs from {title}: {said}"


def defined_in(path, chosen):
    """The defined results by form name. Reads them from this file if it exists, else computes them and stores them
    there."""
    known = json.loads(path.read_text(encoding="utf8")) if path.exists() else {}
    known |= {each.name: definitions.answer_of(each) for each in chosen if each.name not in known}
    path.write_text(json.dumps(known), encoding="utf8")
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--digests", action="store_true", help="--out keeps digests of forms that allow no difference")
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--definitions", type=pathlib.Path, help="compare with definitions.py; its results go here")
    parser.add_argument("--forms", default="", help="only those whose name has this in it")
    parser.add_argument("--range", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.range:
        first, count = options.range
        print(json.dumps(ask(options.library, FORMS[first : first + count])))
        return 0
    chosen = [each for each in FORMS if options.forms in each.name]
    if len(chosen) == len(FORMS):
        parts = [part for first in range(0, len(FORMS), BATCH) for part in ask_apart(options.library, first, BATCH)]
    else:
        parts = [ask(options.library, chosen)]
    kept = json.loads(lzma.decompress(options.against.read_bytes()))["answers"] if options.against else {}
    answers = {name: answer for part in parts for name, answer in part["answers"].items()}
    defined = defined_in(options.definitions, chosen) if options.definitions else {}
    wrong = [line for part in parts for line in part["wrong"]]
    for each in chosen:
        if each.name in answers:
            wrong += compared(each, unpacked(each, answers[each.name]), defined, kept)
    device, driver = next(((part["device"], part["driver"]) for part in parts if "device" in part), ("no device", ""))
    if options.out:
        if options.digests:
            exact = [each for each in chosen if each.ulps == 0 and each.name in answers]
            answers |= {each.name: definitions.digest(each, unpacked(each, answers[each.name])) for each in exact}
        document = {"device": device, "driver": driver, "answers": answers}
        options.out.write_text(json.dumps(document, indent=0) + "\n", encoding="utf8")
    print("\n".join([*wrong, f"{len(chosen)} forms on {device}: {len(answers)} run, {len(wrong)} differ or fail"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
