/** Spans of ended jobs, as a local receiver of OTLP over HTTP gets them. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { create, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata } from '@grpc/grpc-js';
import { BuildRequestSchema } from '@flashcore/shared/contract';
import { expect, test } from 'vitest';
import { kernel, startTestRunner } from '../testing/test-runner.ts';
import { traceTarget } from './tracing.ts';

interface Received {
  readonly path: string;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: {
    resourceSpans: [
      { resource: unknown; scopeSpans: [{ spans: { name: string; traceId: string; parentSpanId?: string }[] }] },
    ];
  };
}

async function receiver(status = 200) {
  const { promise, resolve } = Promise.withResolvers<Received>();
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      response.writeHead(status).end('{}');
      const body = JSON.parse(Buffer.concat(parts).toString('utf8')) as Received['body'];
      resolve({ path: request.url ?? '', headers: request.headers, body });
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: promise,
    [Symbol.dispose]: () => void server.close(),
  };
}

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

test('an ended job’s spans are sent, in the trace named by the client’s metadata', async () => {
  using collector = await receiver();
  const traces = traceTarget({
    OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.address}/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-key=a%20b',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test',
  });
  await using runner = await startTestRunner({ traces });
  const client = new Client(runner.runner.address, credentials.createInsecure());
  const metadata = new Metadata();
  // Fields that a later version of the standard may append are not kept.
  metadata.set('traceparent', `01-${TRACE}-00f067aa0ba902b7-01-${'x'.repeat(5_000)}`);
  const call = client.makeServerStreamRequest(
    '/flashcore.runner.v1.KernelRunnerService/Build',
    (request: Uint8Array) => Buffer.from(request),
    (bytes: Buffer) => bytes,
    toBinary(BuildRequestSchema, create(BuildRequestSchema, kernel('ok'))),
    metadata,
  );
  call.resume();
  await once(call, 'end');
  const [job] = (await runner.client.listJobs()).jobs;
  expect(job!.labels).toEqual({ traceparent: `01-${TRACE}-00f067aa0ba902b7-01` });
  client.close();
  const { path, headers, body } = await collector.received;
  const [{ resource, scopeSpans }] = body.resourceSpans;
  const { spans } = scopeSpans[0];
  expect([path, headers['content-type'], headers['x-key']]).toEqual(['/v1/traces', 'application/json', 'a b']);
  expect(resource).toEqual({
    attributes: [
      { key: 'deployment.environment', value: { stringValue: 'test' } },
      { key: 'service.name', value: { stringValue: 'flashcore-runner' } },
    ],
  });
  expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([TRACE]));
  expect(spans[0]!.parentSpanId).toBe('00f067aa0ba902b7');
  expect(spans.map(({ name }) => name)).toEqual(expect.arrayContaining(['waits for the device', 'has the device']));
});

test('if the receiver refuses a trace, only the trace is lost: the job ends, and the runner can stop', async () => {
  using collector = await receiver(503);
  const traces = traceTarget({ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${collector.address}/own/path` });
  await using runner = await startTestRunner({ traces });
  for await (const event of runner.client.start('build', kernel('ok'), {})) void event;
  expect((await collector.received).path).toBe('/own/path');
});

test.each([
  [{}, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: '' }, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:4318', OTEL_SDK_DISABLED: 'true' }, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a:4318/x/' }, 'http://a:4318/x/v1/traces'],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://b/t' }, 'https://b/t'],
])('the environment %o makes %s the receiver of traces', (environment, url) => {
  expect(traceTarget(environment)?.url.href).toBe(url);
});

test('an invalid address is refused, and the error names its variable', () => {
  expect(() => traceTarget({ OTEL_EXPORTER_OTLP_ENDPOINT: 'localhost:4318' })).toThrow(
    'OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318: must be an http or https address',
  );
});
