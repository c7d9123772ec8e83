"""A client in another language: starts Build, drops the stream, and resumes watching after the last event it saw.

Usage: watch_again.py ADDRESS DESCRIPTOR_SET KERNEL_ID CUT_AFTER Prints one JSON document: the event numbers of each
piece, the payload names, and the outcome. The message classes are made at run time from a FileDescriptorSet (`buf build
-o`), so no generated Python is needed.
"""

import json
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "flashcore.runner.v1"


class Runner:
    """Calls KernelRunnerService by method name with plain dictionaries of fields."""

    def __init__(self, address, descriptor_set_path):
        files = descriptor_pb2.FileDescriptorSet()
        with open(descriptor_set_path, "rb") as file:
            files.ParseFromString(file.read())
        self.pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            self.pool.Add(file)
        self.channel = grpc.insecure_channel(address)
        self.service = self.pool.FindServiceByName(f"{PACKAGE}.KernelRunnerService")

    def message(self, descriptor):
        if hasattr(message_factory, "GetMessageClass"):
            return message_factory.GetMessageClass(descriptor)
        return message_factory.MessageFactory(self.pool).GetPrototype(descriptor)

    def stream(self, method_name, **fields):
        method = self.service.methods_by_name[method_name]
        call = self.channel.unary_stream(
            f"/{PACKAGE}.KernelRunnerService/{method_name}",
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=self.message(method.output_type).FromString,
        )
        return call(self.message(method.input_type)(**fields), timeout=120)


def main():
    address, descriptor_set, kernel_id, cut_after = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    runner = Runner(address, descriptor_set)

    first, job = [], None
    stream = runner.stream("Build", kernel={"kernel_id": kernel_id}, variant={"keep_ptx": True})
    for response in stream:
        job = response.event.job
        first.append((response.event.sequence, response.event.WhichOneof("payload")))
        if len(first) == cut_after:
            stream.cancel()
            break

    second, outcome = [], None
    for response in runner.stream("WatchJob", name=job, after_sequence=first[-1][0]):
        second.append((response.event.sequence, response.event.WhichOneof("payload")))
        if response.event.WhichOneof("payload") == "finished":
            outcome = response.event.finished.outcome

    print(json.dumps({"job": job, "first": first, "second": second, "outcome": outcome}))


if __name__ == "__main__":
    main()
