/** Services expected of every gRPC server. Loading them takes a fifth of a runner's start. */
import { create, toBinary, type DescFile } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema } from '@bufbuild/protobuf/wkt';
import type { Server, handleBidiStreamingCall, MethodDefinition, ServiceDefinition } from '@grpc/grpc-js';
import { loadFileDescriptorSetFromBuffer, loadSync, type PackageDefinition } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { HealthImplementation, protoPath as healthProto } from 'grpc-health-check';
import { KernelRunnerService } from '@flashcore/shared/contract';

/** Serves the standard health service and, if wanted, reflection. Returns a function that sets the serving status. */
export function addStandardServices(
  server: Server,
  { reflection }: { reflection: boolean },
): (serving: boolean) => void {
  const health = new HealthImplementation();
  const setServing = (serving: boolean): void => {
    for (const name of ['', KernelRunnerService.typeName]) health.setStatus(name, serving ? 'SERVING' : 'NOT_SERVING');
  };
  setServing(true);
  health.addToServer(server);
  if (reflection) addReflection(server);
  return setServing;
}

const VERSIONS = ['v1', 'v1alpha'];
const METHOD = 'ServerReflectionInfo';

interface ReflectionMethod {
  definition: MethodDefinition<object, object>;
  handle: handleBidiStreamingCall<object, object>;
}

/**
 * Serves grpc.reflection.v1 and v1alpha, so that tools such as grpcurl need no .proto files. The answers are prepared
 * on the first request, because that takes as long as the rest of a runner's start.
 */
function addReflection(server: Server): void {
  let methods: Map<string, ReflectionMethod> | undefined;
  for (const version of VERSIONS) {
    const path = `/grpc.reflection.${version}.ServerReflection/${METHOD}`;
    const method = (): ReflectionMethod => (methods ??= reflectionMethods()).get(path)!;
    const definition: MethodDefinition<object, object> = {
      path,
      requestStream: true,
      responseStream: true,
      requestSerialize: (request) => method().definition.requestSerialize(request),
      requestDeserialize: (bytes) => method().definition.requestDeserialize(bytes),
      responseSerialize: (response) => method().definition.responseSerialize(response),
      responseDeserialize: (bytes) => method().definition.responseDeserialize(bytes),
    };
    const handle: ReflectionMethod['handle'] = (call) => method().handle(call);
    server.addService({ [METHOD]: definition }, { [METHOD]: handle });
  }
}

/** By path: the methods that @grpc/reflection would add to a server. */
function reflectionMethods(): Map<string, ReflectionMethod> {
  const methods = new Map<string, ReflectionMethod>();
  const health = loadSync(healthProto, { keepCase: true });
  const collector: Pick<Server, 'addService'> = {
    addService: (service: ServiceDefinition, implementation) => {
      const definition = service[METHOD] as MethodDefinition<object, object>;
      methods.set(definition.path, { definition, handle: implementation[METHOD] as ReflectionMethod['handle'] });
    },
  };
  new ReflectionService({ ...health, ...describe(KernelRunnerService.file) }).addToServer(collector);
  return methods;
}

/**
 * Our service as proto-loader defines it, with the files as buf compiled them: proto-loader's own descriptors name no
 * dependencies, so Python's and Go's clients can't link them (https://github.com/grpc/grpc-node/issues/2595).
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
  // @grpc/reflection reads the files of every type, so it is enough if one type has them.
  const holder = Object.entries(loaded).find(([, definition]) => 'fileDescriptorProtos' in definition)?.[0];
  const linked = Object.fromEntries(
    Object.entries(loaded).map(([name, definition]) => [
      name,
      'fileDescriptorProtos' in definition
        ? { ...definition, fileDescriptorProtos: name === holder ? fileDescriptorProtos : [] }
        : definition,
    ]),
  );
  // Spreading a union loses its member types.
  return linked as PackageDefinition;
}
