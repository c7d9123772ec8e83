/** RPCs that read what the host has: devices, kernels, artifacts. */
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import {
  GetHostResponseSchema,
  type GetHostRequest,
  type GetHostResponse,
  ListKernelsResponseSchema,
  type ListKernelsRequest,
  type ListKernelsResponse,
  GetKernelResponseSchema,
  KernelReferenceSchema,
  type GetKernelRequest,
  type GetKernelResponse,
  ReadArtifactResponseSchema,
  invalidRequest,
  parseSha256,
  type ReadArtifactRequest,
  type ReadArtifactResponse,
} from '@flashcore/shared/contract';
import { kernelMessageOf } from '../kernels.ts';
import type { UnaryHandler, StreamHandler, Services } from './call.ts';
import { checkKernelReference } from './validate/kernel.ts';
import { Violations } from './validate/violations.ts';

/** Describes the host, its abilities and the caller. */
export const getHost =
  ({ host, jobs, planner }: Services): UnaryHandler<GetHostRequest, GetHostResponse> =>
  async ({ readings }, { caller }) =>
    create(GetHostResponseSchema, {
      host: await host.describe({
        devices: jobs.devices(),
        activeJobs: jobs.active,
        trusted: !caller.authenticated,
        readings,
      }),
      caller: { name: caller.name, role: caller.role },
      ...planner.judging(),
    });

/** Lists the runner's kernels in the order of the ladder. */
export const listKernels =
  ({ kernels }: Services): UnaryHandler<ListKernelsRequest, ListKernelsResponse> =>
  ({ includeFaulty }) =>
    create(ListKernelsResponseSchema, { kernels: kernels.list({ includeFaulty }) });

/**
 * Returns a kernel, or the sources of a build, with the list of files; ReadArtifact then serves their bytes. Errors:
 * KERNEL_NOT_FOUND, BUILD_NOT_FOUND, SOURCES_MISSING if a build's sources were removed.
 */
export const getKernel =
  ({ kernels, artifacts }: Services): UnaryHandler<GetKernelRequest, GetKernelResponse> =>
  ({ kernelId, buildId }) => {
    const reference = create(KernelReferenceSchema, {
      source: buildId === '' ? { case: 'kernelId', value: kernelId } : { case: 'buildId', value: buildId },
    });
    const violations = new Violations();
    if (kernelId !== '' && buildId !== '') violations.add('build_id', 'must be empty where kernel_id is set');
    checkKernelReference(reference, violations, '');
    violations.throwIfAny();
    const kernel = kernels.resolve(reference);
    for (const { path } of kernel.files) artifacts.putFile(join(kernel.folder, path));
    return create(GetKernelResponseSchema, {
      kernel: kernelMessageOf(kernel, { withFiles: true }),
      ...(kernel.build && { variant: kernel.build.variant }),
    });
  };

const PIECE_BYTES = 64 * 1024;

/** Streams an artifact's bytes from an offset, as fast as the client takes them, after checking their digest. */
export const readArtifact = ({ artifacts }: Services): StreamHandler<ReadArtifactRequest, ReadArtifactResponse> =>
  async function* read({ sha256, offset }) {
    await using file = await artifacts.open(parseSha256(sha256));
    const { size } = await file.stat();
    if (offset < 0n || offset > BigInt(size))
      throw invalidRequest({
        field: 'offset',
        description: `must be from 0 to ${size}, the artifact's size, got ${offset}`,
      });
    for (let position = Number(offset); position < size;) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(PIECE_BYTES, size - position)), { position });
      if (bytesRead === 0) throw new Error(`artifact ${sha256} is shorter than it was`);
      yield [create(ReadArtifactResponseSchema, { data: buffer.subarray(0, bytesRead) })];
      position += bytesRead;
    }
  };
