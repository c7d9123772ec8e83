import { create } from '@bufbuild/protobuf';
import {
  ReadArtifactResponseSchema,
  invalidRequest,
  parseSha256,
  type ReadArtifactRequest,
  type ReadArtifactResponse,
} from '@flashcore/shared/contract';
import type { StreamHandler } from './call.ts';
import type { Services } from './services.ts';

const PIECE_BYTES = 64 * 1024;

/** Streams an artifact's bytes from an offset, as fast as the client takes them, after checking their digest. */
export const readArtifact = ({ artifacts }: Services): StreamHandler<ReadArtifactRequest, ReadArtifactResponse> =>
  async function* read({ sha256, offset }) {
    await using file = await artifacts.open(parseSha256(sha256));
    const { size } = await file.stat();
    if (offset < 0n || offset > BigInt(size))
      throw invalidRequest({
        field: 'offset',
        description: `must be from 0 to ${size}, the artifact's size, is ${offset}`,
      });
    for (let position = Number(offset); position < size;) {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(Math.min(PIECE_BYTES, size - position)), { position });
      if (bytesRead === 0) throw new Error(`artifact ${sha256} is shorter than it was`);
      yield [create(ReadArtifactResponseSchema, { data: buffer.subarray(0, bytesRead) })];
      position += bytesRead;
    }
  };
