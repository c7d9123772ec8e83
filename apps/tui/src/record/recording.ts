/**
 * A job's events in a file, one JSON document per line in the proto's JSON mapping, for demos, bug reports and tests.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { fromJson, toJson, type JsonValue } from '@bufbuild/protobuf';
import {
  FlashcoreError,
  JobEventSchema,
  type JobEvent,
  plainMessage,
  withCurrentNames,
} from '@flashcore/shared/contract';
import { readForeignText } from '@flashcore/shared/files';
import { errorText } from '@flashcore/shared/text';

/** Limit on the size of a recording, far above what a job's log can contain. */
const MAX_RECORDING_BYTES = 256 * 2 ** 20;

export interface Recorder {
  write(event: JobEvent): void;
  close(): void;
}

/**
 * Records into `file`, replacing its content. Each line is written at once, so that after a crash the earlier events
 * can be inspected.
 */
export function recordTo(file: string): Recorder {
  const descriptor = openSync(file, 'w');
  return {
    write: (event) => void writeSync(descriptor, `${JSON.stringify(toJson(JobEventSchema, event))}\n`),
    close: () => closeSync(descriptor),
  };
}

/** The events of a recording. Errors: INVALID_REQUEST that names the invalid line. */
export function readRecording(file: string): JobEvent[] {
  const lines = readForeignText(file, MAX_RECORDING_BYTES)
    .split('\n')
    .filter((line) => line.trim() !== '');
  const events = lines.map((line, index) => eventOf(line, file, index + 1));
  if (!events[0]?.job) throw noRecording(file, 1, 'must be an event of a job');
  return events;
}

function eventOf(line: string, file: string, number: number): JobEvent {
  try {
    const json = withCurrentNames(JSON.parse(line)) as JsonValue;
    return plainMessage(JobEventSchema, fromJson(JobEventSchema, json, { ignoreUnknownFields: true }));
  } catch (cause) {
    throw noRecording(file, number, errorText(cause), cause);
  }
}

const noRecording = (file: string, line: number, fault: string, cause?: unknown) =>
  new FlashcoreError(
    'INVALID_REQUEST',
    { path: file, line: String(line) },
    `${file}, line ${line}: must be an event of a job in JSON, as --record writes it, ${fault}`,
    { cause },
  );
