import { open } from 'node:fs/promises';
import { create } from '@bufbuild/protobuf';
import {
  ReadArtifactResponseSchema,
  invalidRequest,
  type ReadArtifactRequest,
  type ReadArtifactResponse,
} from '@flashcore/shared/contract';
import { isSha256 } from '../store/source-tree.ts';
import type { StreamHandler } from './call.ts';
import type { Services } from './services.ts';

const PIECE_BYTES = 64 * 1024;

/**
 * Streams an artifact's bytes from an offset. Read piece by piece as the client takes them; the digest is the client's
 * to check.
 */
export const readArtifact = ({ artifacts }: Services): StreamHandler<ReadArtifactRequest, ReadArtifactResponse> =>
  async function* read({ sha256, offset }) {
    if (!isSha256(sha256))
      throw invalidRequest({ field: 'sha256', description: 'must be a SHA-256 of 64 lower-case hexadecimal digits' });
    const { path, size } = artifacts.use(sha256);
    if (offset < 0n || offset > BigInt(size))
      throw invalidRequest({
        field: 'offset',
        description: `must be from 0 to ${size}, the artifact's size, is ${offset}`,
      });
    await using file = await open(path, 'r');
    for (let position = Number(offset); position < size;) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(PIECE_BYTES, size - position)), { position });
      if (bytesRead === 0) throw new Error(`artifact ${sha256} is shorter than it was`);
      yield [create(ReadArtifactResponseSchema, { data: buffer.subarray(0, bytesRead) })];
      position += bytesRead;
    }
  };
