import { create } from '@bufbuild/protobuf';
import { FlashcoreError } from '../contract/errors.ts';
import { ReadArtifactRequestSchema } from '../generated/flashcore/runner/v1/service_pb.js';
import { sha256Of } from '../contract/digest.ts';
import { callStreaming } from './calls.ts';
import type { Link } from './job-events.ts';
import { ResumePolicy, type ResumeOptions } from './resume.ts';

/** Default limit on an artifact, because it is held in memory. The largest artifacts are ncu profiles of a few MiB. */
const MOST_ARTIFACT_BYTES = 1024 ** 3;

export interface ArtifactOptions extends ResumeOptions {
  /** Larger artifacts are refused; default 1 GiB. */
  mostBytes?: number | undefined;
}

/** An artifact's bytes, checked against its digest. */
export async function artifactBytes(
  { channel, address }: Link,
  sha256: string,
  options: ArtifactOptions,
): Promise<Buffer> {
  const { mostBytes = MOST_ARTIFACT_BYTES } = options;
  const pieces: Uint8Array[] = [];
  let offset = 0n;
  const policy = new ResumePolicy(channel, address, options);
  for (let complete = false; !complete;) {
    try {
      for await (const { data } of callStreaming(
        channel,
        'readArtifact',
        create(ReadArtifactRequestSchema, { sha256, offset }),
        { signal: options.signal },
      )) {
        pieces.push(data);
        offset += BigInt(data.length);
        if (offset > BigInt(mostBytes)) throw tooLarge(sha256, mostBytes);
        policy.progress();
      }
      complete = true;
    } catch (cause) {
      await policy.waitAfter(cause, `artifact ${sha256}`);
    }
  }
  const bytes = Buffer.concat(pieces);
  const found = sha256Of(bytes);
  if (found !== sha256)
    throw new FlashcoreError(
      'DIGEST_MISMATCH',
      { wanted: sha256, found },
      `The artifact ${sha256} arrived damaged: its bytes have the digest ${found}`,
    );
  return bytes;
}

const tooLarge = (sha256: string, mostBytes: number) =>
  new FlashcoreError(
    'DIGEST_MISMATCH',
    { wanted: sha256 },
    `The artifact ${sha256} has more than ${mostBytes} bytes, and is not read: look at the runner`,
  );
