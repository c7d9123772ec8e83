#!/usr/bin/env python3
"""Launches one kernel of test/fixtures/triton/counted once, through the driver API of a GPU or of the emulator.

  python3 triton_lines.py LIBRARY LAUNCHES NAME IMAGE

LIBRARY is libcuda.so.1 or libcuda_emu.so, LAUNCHES is launches.json with NAME.ptx next to it, and IMAGE is that PTX or
its cubin. On the emulator, the counts by source line go to standard output as JSON. The program imports no packages, so
that ncu profiles only the kernel.
"""

import ctypes
import json
import pathlib
import re
import sys

MAX_DYNAMIC_SHARED_SIZE = 8


def main():
    library, launches, name, image = sys.argv[1:]
    launch = json.loads(pathlib.Path(launches).read_text(encoding="utf8"))[name]
    ptx = pathlib.Path(launches).with_name(f"{name}.ptx").read_text(encoding="utf8")
    shared = int(re.search(r"flashcore: (\d+) bytes of dynamic shared memory", ptx).group(1))
    cuda = ctypes.CDLL(library)
    emulated = hasattr(cuda, "flashcore_emulator_profile")

    def call(function, *arguments):
        if (error := getattr(cuda, function)(*arguments)) != 0:
            fault = text_of(cuda.flashcore_emulator_last_fault) if emulated else ""
            raise RuntimeError(f"{function} failed: CUDA error {error} {fault}")

    device, context, module, kernel = (ctypes.c_int(), *(ctypes.c_void_p() for _ in range(3)))
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), pathlib.Path(image).read_bytes() + b"\0")
    call("cuModuleGetFunction", ctypes.byref(kernel), module, name.encode())
    call("cuFuncSetAttribute", kernel, MAX_DYNAMIC_SHARED_SIZE, shared)

    def argument(value):
        if isinstance(value, dict):
            tensor = ctypes.c_uint64()
            call("cuMemAlloc_v2", ctypes.byref(tensor), ctypes.c_size_t(value["bytes"]))
            call("cuMemsetD8_v2", tensor, ctypes.c_ubyte(0), ctypes.c_size_t(value["bytes"]))
            return tensor
        return ctypes.c_int32(value) if isinstance(value, int) else ctypes.c_float(value)

    # The last two arguments are pointers to scratch memory that Triton adds. These kernels use none.
    values = [*map(argument, launch["arguments"]), ctypes.c_uint64(0), ctypes.c_uint64(0)]
    pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(each) for each in values))
    call("cuCtxSynchronize")
    if emulated:
        call("flashcore_emulator_set_profiling", 1)
    call(
        "cuLaunchKernel",
        kernel,
        *launch["grid"],
        32 * launch["values"]["NUM_WARPS"],
        1,
        1,
        shared,
        None,
        pointers,
        None,
    )
    call("cuCtxSynchronize")
    if emulated:
        print(text_of(cuda.flashcore_emulator_profile))


def text_of(function):
    text = ctypes.create_string_buffer(function(None, ctypes.c_size_t(0)) + 1)
    function(text, ctypes.c_size_t(len(text)))
    return text.value.decode()


if __name__ == "__main__":
    main()
