"""Replaces tools/sdpa.py in tests, without PyTorch. FAKE_SDPA (passed as PYTHON_FAKE_SDPA) says how it misbehaves."""

import json
import math
import os
import struct
import sys
import time

fault = os.environ.get("PYTHON_FAKE_SDPA", "")
VERSION = "PyTorch 9.9.9, cuDNN 8.7.6"
rounds = 0
for line in sys.stdin:
    request = json.loads(line)
    reply = {"id": request["id"], "ok": True}
    if request["op"] == "open":
        if fault == "slow-open":
            time.sleep(600)
        if fault == "no-torch":
            reply = {
                "id": request["id"],
                "ok": False,
                "reason": "NO_TORCH",
                "message": "python3 has no PyTorch: No module named 'torch'",
            }
        reply |= {"torch": "9.9.9", "device": "fake"}
    if request["op"] == "prepare":
        name = request["rival"]
        if fault == f"{name} crashes":
            print("Segmentation fault", file=sys.stderr)
            sys.exit(9)
        if fault == f"{name} hangs":
            time.sleep(600)
        reason = {"efficient": "no head dimension of 7", "math": "out of memory"}.get(name, "")
        reply |= {"name": name, "available": not reason, "reason": reason, "version": VERSION, "launchesPerSample": 10}
    if request["op"] == "parity":
        count = math.prod(request["case"]["tensors"][0]["dims"])
        reply["version"] = VERSION
        with open(request["path"], "rb") as file:
            data = file.read()
        output, reference = (
            struct.unpack_from(f"{count}e", data, 6 * count),
            struct.unpack_from(f"{count}d", data, 8 * count),
        )
        # flash returns the reference itself. An output that is far off stands for an input that flash does not take; an
        # output that is even farther off stands for a lost device.
        difference = [abs(output[index] - reference[index]) for index in range(count)]
        reply["backends"] = [
            {
                "name": "flash",
                "available": True,
                "reason": "",
                "maxAbsDifference": max(difference),
                "meanAbsDifference": sum(difference) / count,
                "maxAbsError": 0.0,
                "meanAbsError": 0.0,
            },
            {"name": "efficient", "available": False, "reason": "no head dimension of 7"},
        ]
        if max(difference) >= 8:
            reply["backends"][0] = {"name": "flash", "available": False, "reason": "out of memory"}
        if max(difference) >= 16:
            reply = {"id": request["id"], "ok": False, "reason": "FAILED", "message": "the device is lost"}
    if request["op"] == "round":
        if fault == "hang":
            time.sleep(600)
        if fault == "crash":
            print("CUDA error: an illegal memory access was encountered", file=sys.stderr)
            sys.exit(9)
        rounds += 1
        # "slower after 6": the device's clock falls for good.
        slower = 1.2 if fault.startswith("slower after ") and rounds > int(fault.split()[-1]) else 1.0
        first = 20.0 if request["backend"] == "flash" else 10.0
        reply["samplesUs"] = [slower * (first + index % 3) for index in range(30)]
    print(json.dumps(reply), flush=True)
