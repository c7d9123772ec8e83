import type { Server } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer, loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { create, toBinary, type DescFile } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import { protoPath as healthProto } from 'grpc-health-check';
import { KernelRunnerService } from '@flashcore/shared/contract';

/** Serves grpc.reflection.v1 and v1alpha, so that grpcurl and its like need no .proto files. */
export function addReflection(server: Server): void {
  const health = loadSync(healthProto, { keepCase: true });
  new ReflectionService({ ...health, ...describe(KernelRunnerService.file) }).addToServer(server);
}

/**
 * Our service as proto-loader defines it, with the files as buf compiled them: proto-loader's own descriptors name no
 * dependencies, so that Python's and Go's clients can't link them (https://github.com/grpc/grpc-node/issues/2595).
 */
function describe(service: DescFile): PackageDefinition {
  const files = new Map<string, DescFile>();
  const visit = (file: DescFile): void => {
    if (files.has(file.name)) return;
    file.dependencies.forEach(visit);
    files.set(file.name, file);
  };
  visit(service);
  const file = [...files.values()].map(({ proto }) => proto);
  const set = toBinary(FileDescriptorSetSchema, create(FileDescriptorSetSchema, { file }));
  const fileDescriptorProtos = file.map((each) => Buffer.from(toBinary(FileDescriptorProtoSchema, each)));
  const loaded = loadFileDescriptorSetFromBuffer(Buffer.from(set), { keepCase: true });
  const linked = Object.fromEntries(
    Object.entries(loaded).map(([name, definition]) => [
      name,
      'fileDescriptorProtos' in definition ? { ...definition, fileDescriptorProtos } : definition,
    ]),
  );
  // Spreading a union loses what its members are.
  return linked as PackageDefinition;
}
