import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * This many ended connections hold about 10 MB of Node's HTTP/2 memory, which is outside the heap and unknown to V8.
 */
const CONNECTIONS = 16;
const SOON_MS = 100;

type Collect = (options: { type: 'major'; execution: 'async' }) => Promise<void>;

let collect: Collect | undefined;
let ended = 0;
let timer: NodeJS.Timeout | undefined;

/**
 * Collects garbage after every few ended connections. Their memory is freed with small objects that V8 alone would not
 * collect soon. Takes about 20 ms.
 */
export function connectionEnded(): void {
  ended += 1;
  if (ended < CONNECTIONS) return;
  timer ??= setTimeout(() => {
    ended = 0;
    timer = undefined;
    void garbageCollector()({ type: 'major', execution: 'async' });
  }, SOON_MS).unref();
}

function garbageCollector(): Collect {
  if (!collect) {
    setFlagsFromString('--expose-gc');
    collect = runInNewContext('gc') as Collect;
    setFlagsFromString('--no-expose-gc');
  }
  return collect;
}
