"""Bad input from another language: sends each request of a table to a runner and prints what came back.

Usage: bad_requests.py ADDRESS DESCRIPTOR_SET <rows.json A row is {"rpc": "Verify", "request": {...}} with the request
in the proto's JSON mapping, or {"rpc": ..., "bytes": "hex"} for bytes that no encoder produces; {"rpc": ..., "copies":
n} sends n copies of a request at the same time. Prints one JSON list: per row its answers, each {"code", "reason",
"fields", "seconds", "details", "first"}, where `first` is the job in the first event.
"""

import concurrent.futures
import json
import sys
import time

import grpc
from google.protobuf import json_format

from watch_again import PACKAGE, Runner

# google.rpc.Status with ErrorInfo and BadRequest, as in grpc-status-details-bin, using the field numbers of
# google/rpc/status.proto and error_details.proto.
DETAILS_KEY = "grpc-status-details-bin"


def fields_of(data):
    """Parses a protobuf message without its schema into (field number, bytes or int)."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size


def details_of(error):
    """Returns (reason, violated fields) of a status. Both are empty if the status has no details."""
    status = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
    reason, fields = "", []
    for number, detail in fields_of(status or b""):
        if number != 3:
            continue
        any_message = dict(fields_of(detail))
        kind, value = any_message[1].decode(), any_message[2]
        if kind.endswith("ErrorInfo"):
            reason = dict(fields_of(value))[1].decode()
        if kind.endswith("BadRequest"):
            fields = [dict(fields_of(violation))[1].decode() for number, violation in fields_of(value) if number == 1]
    return reason, fields


class Caller(Runner):
    def send(self, row):
        method = self.service.methods_by_name[row["rpc"]]
        data = (
            bytes.fromhex(row["bytes"])
            if "bytes" in row
            else json_format.ParseDict(
                row.get("request", {}), self.message(method.input_type)(), descriptor_pool=self.pool
            ).SerializeToString()
        )
        path = f"/{PACKAGE}.KernelRunnerService/{row['rpc']}"
        decode = self.message(method.output_type).FromString
        started = time.monotonic()
        answer = {"code": "OK", "reason": "", "fields": [], "details": "", "first": ""}
        try:
            if method.server_streaming:
                stream = self.channel.unary_stream(path, response_deserializer=decode)(data, timeout=10)
                for response in stream:
                    answer["first"] = answer["first"] or response.event.job
            elif method.client_streaming:
                self.channel.stream_unary(path, response_deserializer=decode)(iter([data]), timeout=10)
            else:
                self.channel.unary_unary(path, response_deserializer=decode)(data, timeout=10)
        except grpc.RpcError as error:
            reason, fields = details_of(error)
            answer.update(code=error.code().name, reason=reason, fields=fields, details=error.details())
        return {**answer, "seconds": time.monotonic() - started}


def main():
    caller = Caller(sys.argv[1], sys.argv[2])
    answers = []
    for row in json.load(sys.stdin):
        with concurrent.futures.ThreadPoolExecutor(row.get("copies", 1)) as pool:
            answers.append(list(pool.map(caller.send, [row] * row.get("copies", 1))))
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
