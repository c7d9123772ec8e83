/**
 * Measures fa-tui's frames for `npm run bench`. Built into one file like fa-tui, with the same React and the same
 * changes to Ink. The figures are processor time of the drawing thread, from a change of the state to the bytes for the
 * terminal.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { EventEmitter } from 'node:events';
import { create } from '@bufbuild/protobuf';
import { JobEventSchema, type JobEvent } from '@flashcore/shared/contract';
import { Box, render, type Instance } from 'ink';
import { useSyncExternalStore, type ReactElement } from 'react';
import { Screen } from '../components/screen.tsx';
import { Store } from '../session/store.ts';
import { initialState } from '../state/app-state.ts';
import { openKeyboard } from './keyboard.ts';
import { SAMPLE_JOB, SAMPLE_START_MS, sampleEvents } from './sample-job.ts';

const SIZE = { columns: 120, rows: 40 };
const FRAMES = 12;
/** Lines per frame at 5,000 lines and 20 frames per second. */
const LINES_A_FRAME = 250;

/** Time for frames that each show another view. */
export async function viewFrames(): Promise<number> {
  using screen = openScreen();
  const views = ['correct', 'gates'] as const;
  return await cpuOf((index) => screen.frame(() => screen.store.dispatch({ type: 'show', view: views[index % 2]! })));
}

/** Time for adding log lines and drawing frames that show the last of them. */
export async function logFrames(): Promise<number> {
  using screen = openScreen();
  let sequence = sampleEvents().length;
  const line = (): JobEvent =>
    create(JobEventSchema, {
      job: SAMPLE_JOB,
      sequence: BigInt(++sequence),
      payload: { case: 'logLine', value: { source: 'nvcc', text: `flashcore_v6.cu(${sequence}): note: a line` } },
    });
  return await cpuOf(() => {
    const events = Array.from({ length: LINES_A_FRAME }, line);
    return screen.frame(() => events.forEach((event) => screen.store.dispatch({ type: 'job-event', event })));
  });
}

/** Time for as many frames of an Ink program that shows nothing. */
export async function emptyFrames(): Promise<number> {
  const listeners = new Set<() => void>();
  let state = 0;
  const listen = (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  const Empty = (): ReactElement => {
    useSyncExternalStore(listen, () => state);
    return <Box width={SIZE.columns} height={SIZE.rows} />;
  };
  using ink = open(<Empty />);
  await ink.rest();
  return await cpuOf(async () => {
    await ink.rest();
    state += 1;
    for (const listener of listeners) listener();
  });
}

/** Processor time of the frames in milliseconds. As many frames are drawn before, so that V8 can optimize. */
async function cpuOf(frame: (index: number) => Promise<void>): Promise<number> {
  for (let index = 0; index < FRAMES; index++) await frame(index);
  const before = process.threadCpuUsage();
  for (let index = 0; index < FRAMES; index++) await frame(index);
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}

interface OpenScreen extends Disposable {
  readonly store: Store;
  /** Makes a change and waits for its frame. */
  frame(change: () => void): Promise<void>;
}

/** Opens the sample job's screen. */
function openScreen(): OpenScreen {
  const state = initialState({
    runner: { label: 'unix:/tmp/runner.sock', embedded: true },
    ...SIZE,
    now: SAMPLE_START_MS + 12_600,
  });
  const store = new Store({ state });
  store.dispatch({ type: 'attach', job: SAMPLE_JOB });
  for (const event of sampleEvents()) store.dispatch({ type: 'job-event', event });
  const ink = open(<Screen store={store} theme={{ colors: 'truecolor', ascii: false }} />);
  return {
    store,
    async frame(change) {
      await ink.rest();
      const drawn = nextFrame();
      change();
      await drawn;
    },
    [Symbol.dispose]: () => {
      store.close();
      ink[Symbol.dispose]();
    },
  };
}

/** Resolves when the store's next frame ends. */
function nextFrame(): Promise<void> {
  return new Promise((resolve) => {
    const told = (): void => {
      unsubscribe('fa-tui:frame', told);
      resolve();
    };
    subscribe('fa-tui:frame', told);
  });
}

/** Draws for a terminal that accepts all output at once. */
function open(tree: ReactElement): Disposable & { rest: () => Promise<void> } {
  const stdout = Object.assign(new EventEmitter(), {
    ...{ isTTY: true, writable: true, ...SIZE },
    write: (_: string, done?: () => void) => {
      if (typeof done === 'function') queueMicrotask(done);
      return true;
    },
  }) as unknown as NodeJS.WriteStream;
  const stdin = openKeyboard();
  const ink: Instance = render(tree, {
    ...{ stdout, stdin, alternateScreen: true, incrementalRendering: true, interactive: true },
    ...{ exitOnCtrlC: false, patchConsole: false, maxFps: 1_000 },
  });
  return {
    // eslint-disable-next-line flashcore/no-fixed-wait -- longer than Ink's throttle: it draws the next change at once
    rest: () => new Promise((resolve) => setTimeout(resolve, 3)),
    [Symbol.dispose]: () => ink.unmount(),
  };
}
