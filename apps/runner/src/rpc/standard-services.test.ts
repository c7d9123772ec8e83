import { Client, credentials } from '@grpc/grpc-js';
import { create, createFileRegistry, fromBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema, FileDescriptorSetSchema, type FileDescriptorProto } from '@bufbuild/protobuf/wkt';
import { expect, test } from 'vitest';
import { KernelRunnerService } from '@flashcore/shared/contract';
import { startTestRunner } from '../testing/test-runner.ts';

const SERVICE = 'flashcore.runner.v1.KernelRunnerService';

test.for(['grpc.reflection.v1', 'grpc.reflection.v1alpha'])(
  '%s lists the service and returns its file with every method',
  async (version) => {
    await using fixture = await startTestRunner();
    // ServerReflectionRequest.list_services = 7, .file_containing_symbol = 4.
    const services = await reflect(fixture.runner.address, version, field(7, '*'));
    expect(services.toString('latin1')).toContain(SERVICE);
    expect(services.toString('latin1')).toContain('grpc.health.v1.Health');
    // ServerReflectionResponse.file_descriptor_response = 4, of repeated bytes file_descriptor_proto = 1.
    const answer = fieldsOf(await reflect(fixture.runner.address, version, field(4, SERVICE))).get(4)![0]!;
    const files = fieldsOf(answer)
      .get(1)!
      .map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
    // Linking requires that every imported file is there, as clients in Python and Go need it.
    const linked = createFileRegistry(create(FileDescriptorSetSchema, { file: orderByDependency(files) }));
    expect(linked.getService(SERVICE)?.methods.map(({ name }) => name)).toEqual(
      KernelRunnerService.methods.map(({ name }) => name),
    );
  },
);

test('the health service reports on the whole runner and on the service by name', async () => {
  await using fixture = await startTestRunner();
  const check = (service: string) =>
    call(fixture.runner.address, '/grpc.health.v1.Health/Check', service === '' ? Buffer.alloc(0) : field(1, service));
  expect(fieldsOf(await check('')).get(1)).toEqual([Buffer.from([1])]);
  expect(fieldsOf(await check(SERVICE)).get(1)).toEqual([Buffer.from([1])]);
  await expect(check('other.Service')).rejects.toMatchObject({ code: 5 });
});

test('an embedded runner has neither reflection nor a health service, because its only client needs none', async () => {
  await using fixture = await startTestRunner({ embedded: true });
  const { address } = fixture.runner;
  await expect(call(address, '/grpc.health.v1.Health/Check', Buffer.alloc(0))).rejects.toMatchObject({ code: 12 });
  await expect(reflect(address, 'grpc.reflection.v1', field(7, '*'))).rejects.toMatchObject({ code: 12 });
});

/** Sorts files after their dependencies. Throws if one is missing. */
function orderByDependency(files: FileDescriptorProto[]): FileDescriptorProto[] {
  const ordered = new Set<FileDescriptorProto>();
  const visit = (name: string): void => {
    const file = files.find((one) => one.name === name);
    if (!file) throw new Error(`${name} is missing`);
    file.dependency.forEach(visit);
    ordered.add(file);
  };
  files.forEach(({ name }) => visit(name));
  return [...ordered];
}

const same = (value: Buffer): Buffer => value;

function reflect(address: string, version: string, request: Buffer): Promise<Buffer> {
  const client = new Client(address, credentials.createInsecure());
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  const stream = client.makeBidiStreamRequest(`/${version}.ServerReflection/ServerReflectionInfo`, same, same);
  stream.on('data', resolve).on('error', reject);
  stream.end(request);
  return promise.finally(() => client.close());
}

function call(address: string, path: string, request: Buffer): Promise<Buffer> {
  const client = new Client(address, credentials.createInsecure());
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
  client.makeUnaryRequest(path, same, same, request, (error, value) => (error ? reject(error) : resolve(value!)));
  return promise.finally(() => client.close());
}

/** One length-delimited field in protobuf's binary form. */
const field = (number: number, text: string): Buffer =>
  Buffer.from([(number << 3) | 2, text.length, ...Buffer.from(text)]);

/** The fields of a message by number. Varints are kept as one byte, which is enough here. */
function fieldsOf(message: Buffer): Map<number, Buffer[]> {
  const fields = new Map<number, Buffer[]>();
  let position = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = message[position++]!;
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (position < message.byteLength) {
    const tag = varint();
    const amount = varint();
    const value = (tag & 7) === 0 ? Buffer.from([amount]) : message.subarray(position, (position += amount));
    fields.set(tag >>> 3, [...(fields.get(tag >>> 3) ?? []), value]);
  }
  return fields;
}
