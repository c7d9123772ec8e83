import type { Server } from '@grpc/grpc-js';
import { loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { toBinary, type DescFile } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { protoPath as healthProto } from 'grpc-health-check';
import { KernelRunnerService } from '@flashcore/shared/contract';

/** Serves grpc.reflection.v1 and v1alpha, so that grpcurl and its like need no .proto files. */
export function addReflection(server: Server): void {
  const health = loadSync(healthProto, { keepCase: true });
  new ReflectionService({ ...health, ...describe(KernelRunnerService.file) }).addToServer(server);
}

/**
 * Our files as buf compiled them. proto-loader's descriptors would not do: they name no dependencies, so that Python's
 * and Go's clients can't link them
 * (https://github.com/grpc/grpc-node/issues/2595).
 */
function describe(service: DescFile): PackageDefinition {
  const files = new Map<string, DescFile>();
  const visit = (file: DescFile): void => {
    if (files.has(file.name)) return;
    file.dependencies.forEach(visit);
    files.set(file.name, file);
  };
  visit(service);
  const fileDescriptorProtos = [...files.values()].map(({ proto }) =>
    Buffer.from(toBinary(FileDescriptorProtoSchema, proto)),
  );
  return {
    [service.name]: {
      format: 'Protocol Buffer 3 DescriptorProto',
      type: {},
      fileDescriptorProtos,
      serialize: notCalled,
      deserialize: notCalled,
    },
  };
}

/** The reflection service reads descriptors only. */
const notCalled = (): never => {
  throw new Error('a described file carries no messages');
};
