import { create } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  UploadSourcesResponseSchema,
  invalidRequest,
  parseSha256,
  type Sha256,
  type UploadSourcesRequest,
  type UploadSourcesResponse,
  FindMissingSourcesResponseSchema,
  type FindMissingSourcesRequest,
  type FindMissingSourcesResponse,
} from '@flashcore/shared/contract';
import { MAX_TREE_BYTES, MAX_TREE_FILES } from '@flashcore/shared/kernels';
import type { BlobWriter } from '../store/blob-store.ts';
import { sourceFileViolations } from '../store/source-tree.ts';
import type { UploadHandler, UnaryHandler, Services } from './call.ts';
import { Violations } from './validate/violations.ts';

const MAX_PIECE_BYTES = 64 * 1024;

/** Receives source files piece by piece; files that are cut off or differ from the announcement are dropped. */
export const uploadSources =
  ({ sources, quotas }: Services): UploadHandler<UploadSourcesRequest, UploadSourcesResponse> =>
  async (requests, { caller }) => {
    const kept = { files: 0, bytes: 0 };
    let current: { sha256: Sha256; writer: BlobWriter } | undefined;
    try {
      for await (const piece of requests) {
        const sha256 = checkPiece(piece, current?.sha256, kept.files);
        quotas.takeUpload(caller, piece.data.byteLength);
        current ??= { sha256, writer: sources.openUpload() };
        if (current.writer.size + piece.data.byteLength > MAX_TREE_BYTES)
          throw invalidRequest({ field: 'data', description: `must make a file of at most ${MAX_TREE_BYTES} bytes` });
        current.writer.write(piece.data);
        if (!piece.finish) continue;
        keepChecked(current);
        kept.files += 1;
        kept.bytes += current.writer.size;
        current = undefined;
      }
      if (current)
        throw invalidRequest({
          field: 'finish',
          description: `must be true in the last piece of a file: the stream ended within ${current.sha256}`,
        });
      return create(UploadSourcesResponseSchema, { files: kept.files, sizeBytes: BigInt(kept.bytes) });
    } finally {
      current?.writer.close();
    }
  };

function checkPiece(piece: UploadSourcesRequest, expected: Sha256 | undefined, filesKept: number): Sha256 {
  const { data } = piece;
  const sha256 = parseSha256(piece.sha256);
  if (expected !== undefined && sha256 !== expected)
    throw invalidRequest({ field: 'sha256', description: `must stay ${expected} until that file is finished` });
  if (data.byteLength > MAX_PIECE_BYTES)
    throw invalidRequest({
      field: 'data',
      description: `must have at most ${MAX_PIECE_BYTES} bytes, has ${data.byteLength}`,
    });
  if (filesKept >= MAX_TREE_FILES)
    throw invalidRequest({ field: 'finish', description: `must end at most ${MAX_TREE_FILES} files in one call` });
  return sha256;
}

function keepChecked({ sha256, writer }: { sha256: Sha256; writer: BlobWriter }): void {
  const found = writer.digest();
  if (found !== sha256)
    throw new FlashcoreError(
      'DIGEST_MISMATCH',
      { sha256, found },
      `The bytes of ${sha256} have the digest ${found}: upload what was announced`,
    );
  writer.keep(sha256);
}

/** Returns the source files that the runner does not have yet. */
export const findMissingSources =
  ({ sources }: Services): UnaryHandler<FindMissingSourcesRequest, FindMissingSourcesResponse> =>
  ({ files }) => {
    const violations = new Violations();
    violations.count('files', files, MAX_TREE_FILES);
    files
      .slice(0, MAX_TREE_FILES)
      .forEach((file, index) => violations.addAll(sourceFileViolations(file, `files[${index}]`)));
    violations.throwIfAny();
    return create(FindMissingSourcesResponseSchema, { missingSha256: sources.findMissing(files) });
  };
