"""What a device answers to every form of table.py, through the driver API: a GPU's libcuda.so.1, or libcuda_emu.so.

  python3 answers.py LIBRARY [--definitions] [--against answers.json] [--out answers.json]

Compares with the definitions and with the answers of another device; ends with 1 where a form does not run or differs
by more than the table allows. --out keeps the answers.
"""

import argparse
import base64
import ctypes
import json
import pathlib
import struct
import sys
import zlib

import definitions
from table import FORMS, LANES, inputs_of, module_of, register_bits


class Driver:
    """As much of the driver API as it takes to run an entry."""

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
        """What the emulator says of it; nothing on a GPU."""
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

    def run(self, entry, blocks, given, wanted_bytes):
        """The output of one launch; an output that is not written stays 0."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, entry.encode())
        pointers = []
        for data in (given, bytes(wanted_bytes)):
            pointer = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(max(len(data), 8)))
            self.call("cuMemcpyHtoD_v2", pointer, data, ctypes.c_size_t(len(data)))
            pointers.append(pointer)
        arguments = (ctypes.c_void_p * 2)(*(ctypes.addressof(pointer) for pointer in pointers))
        self.call("cuLaunchKernel", function, blocks, 1, 1, LANES, 1, 1, 0, None, arguments, None)
        self.call("cuCtxSynchronize")
        out = ctypes.create_string_buffer(wanted_bytes)
        self.call("cuMemcpyDtoH_v2", out, pointers[1], ctypes.c_size_t(wanted_bytes))
        for pointer in pointers:
            self.call("cuMemFree_v2", pointer)
        return out.raw


def answer_of(driver, number, each):
    """[block][result][lane]."""
    given = b"".join(struct.pack(f"<{LANES}Q", *lanes) for operands in inputs_of(each) for lanes in operands)
    count = each.blocks * len(each.writes) * LANES
    flat = struct.unpack(f"<{count}Q", driver.run(f"form{number}", each.blocks, given, 8 * count))
    lanes = [list(flat[at : at + LANES]) for at in range(0, count, LANES)]
    results = len(each.writes)
    return [lanes[at : at + results] for at in range(0, len(lanes), results)]


def packed(each, answer):
    """Results as wide as their registers, compressed, as text."""
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
                [int.from_bytes(data[at + n * width : at + (n + 1) * width], "little") for n in range(LANES)]
            )
            at += LANES * width
        answer.append(results)
    return answer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--against", type=pathlib.Path)
    parser.add_argument("--definitions", action="store_true", help="compare with definitions.py: some seconds")
    parser.add_argument("--forms", default="", help="only those whose name has this in it")
    options = parser.parse_args()
    chosen = [each for each in FORMS if options.forms in each.name]
    driver = Driver(options.library)
    driver.load(module_of(chosen))
    kept = json.loads(options.against.read_text(encoding="utf8"))["answers"] if options.against else {}
    answers, wrong = {}, []
    for number, each in enumerate(chosen):
        try:
            answer = answer_of(driver, number, each)
        except RuntimeError as error:
            wrong.append(f"{each.name}: {error}")
            driver.call("cuDevicePrimaryCtxReset_v2", driver.device)
            driver.open()
            driver.load(module_of(chosen))
            continue
        answers[each.name] = packed(each, answer)
        for title, other in (
            ("the definition", options.definitions and definitions.answer_of(each)),
            ("what was kept", each.name in kept and unpacked(each, kept[each.name])),
        ):
            said = other and definitions.difference(each, answer, other)
            if said:
                wrong.append(f"{each.name}: differs from {title}: {said}")
    if options.out:
        document = {"device": driver.name, "driver": driver.version, "answers": answers}
        options.out.write_text(json.dumps(document, indent=0) + "\n", encoding="utf8")
    print("\n".join([*wrong, f"{len(chosen)} forms on {driver.name}: {len(answers)} run, {len(wrong)} differ or fail"]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
