import { randomUUID } from 'node:crypto';
import { clone, create } from '@bufbuild/protobuf';
import {
  type BuildRequestSchema,
  JobOptionsSchema,
  KernelRunnerService,
} from '../generated/flashcore/runner/v1/service_pb.js';
import type { JobRpcName, RpcRequest, RpcRequestInit } from './grpc.ts';

/**
 * Copies a request and adds a request_id. The caller's message stays unchanged and starts another job when it is sent
 * again.
 */
export function withRequestId<Name extends JobRpcName>(method: Name, init: RpcRequestInit<Name>): RpcRequest<Name> {
  const schema = KernelRunnerService.method[method].input as typeof BuildRequestSchema;
  const message = clone(schema, create(schema, init as RpcRequestInit<'build'>));
  message.options ??= create(JobOptionsSchema);
  message.options.requestId ||= randomUUID();
  return message as RpcRequest<JobRpcName> as RpcRequest<Name>;
}

/** Adds a UUID to a request without one, so that a repeated call after a cut decides only once. */
export const once = <Request extends { requestId?: string }>(request: Request): Request => ({
  ...request,
  requestId: request.requestId || randomUUID(),
});
