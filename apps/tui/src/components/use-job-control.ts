import { useCallback, useEffect, useRef } from 'react';
import type { JobControl, JobControlOptions } from '../terminal/job-control.ts';

/** Listens for the signals of job control while the component is mounted; returns the function that stops fa-tui. */
export function useJobControl(
  open: (options: JobControlOptions) => JobControl,
  listeners: JobControlOptions,
): JobControl['stop'] {
  const latest = useRef(listeners);
  const opened = useRef<JobControl>(undefined);
  useEffect(() => void (latest.current = listeners), [listeners]);
  useEffect(() => {
    const control = open({
      onStop: () => latest.current.onStop(),
      onContinue: () => latest.current.onContinue(),
    });
    opened.current = control;
    return control.close;
  }, [open]);
  return useCallback(async (whom) => opened.current?.stop(whom), []);
}
