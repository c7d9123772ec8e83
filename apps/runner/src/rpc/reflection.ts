import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Server } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';
import { ReflectionService } from '@grpc/reflection';
import { protoPath as healthProto } from 'grpc-health-check';

const PACKAGE = 'flashcore/runner/v1';

/** Serves grpc.reflection.v1 and v1alpha, so that grpcurl and its like need no .proto files. */
export function addReflection(server: Server, protoFolder: string): void {
  const files = readdirSync(join(protoFolder, PACKAGE)).filter((name) => name.endsWith('.proto')).map((name) => `${PACKAGE}/${name}`);
  const described = { ...loadSync(files, { includeDirs: [protoFolder], keepCase: true }), ...loadSync(healthProto, { keepCase: true }) };
  new ReflectionService(described).addToServer(server);
}
