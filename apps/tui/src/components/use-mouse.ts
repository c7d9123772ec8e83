import { useEffect, useRef } from 'react';
import { useStdin, useStdout } from 'ink';
import { MOUSE_OFF, MOUSE_ON, mouseEvents, type MouseEvent } from '../terminal/mouse.ts';

/** Asks the terminal for mouse events while `on`. */
export function useMouse(on: boolean, handle: (event: MouseEvent) => void): void {
  const { stdin } = useStdin();
  const { stdout } = useStdout();
  const latest = useRef(handle);
  useEffect(() => void (latest.current = handle), [handle]);
  useEffect(() => {
    if (!on) return undefined;
    // Ink discards input that is not a key; other listeners still see every chunk.
    const listen = (input: Buffer | string): void =>
      mouseEvents(String(input)).forEach((event) => latest.current(event));
    stdin.on('data', listen);
    stdout.write(MOUSE_ON);
    return () => {
      stdin.off('data', listen);
      stdout.write(MOUSE_OFF);
    };
  }, [on, stdin, stdout]);
}
