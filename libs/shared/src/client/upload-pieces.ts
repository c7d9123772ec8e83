import { create } from '@bufbuild/protobuf';
import { UploadSourcesRequestSchema } from '../generated/flashcore/runner/v1/service_pb.js';

const UPLOAD_PIECE_BYTES = 64 * 1024;

/** The upload messages for the files with these digests. */
export function* uploadPieces(digests: readonly string[], contents: ReadonlyMap<string, Uint8Array>) {
  for (const sha256 of digests) {
    const bytes = contents.get(sha256);
    // The runner asked for a digest that was never announced; no file of this folder has it.
    if (bytes === undefined) continue;
    let offset = 0;
    do {
      const data = bytes.subarray(offset, offset + UPLOAD_PIECE_BYTES);
      offset += data.length;
      yield create(UploadSourcesRequestSchema, { sha256, data, finish: offset === bytes.length });
    } while (offset < bytes.length);
  }
}
