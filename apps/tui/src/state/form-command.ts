/** The command line that runs what a form runs. */
import { entryOf, shellWord } from '@flashcore/shared/text';
import { NONE, valueOf, type FormField } from './form-field.ts';
import { kernelKey } from './listed-kernel.ts';
import type { RunForm } from './run-form.ts';

type Action = 'run' | 'build' | 'verify' | 'bench' | 'profile';

/** Which commands take a field, and the words for its value. */
interface Flag {
  readonly in: readonly Action[];
  readonly words: (value: string, field: FormField) => string[];
}

const ALL: readonly Action[] = ['run', 'build', 'verify', 'bench', 'profile'];
const plain =
  (option: string) =>
  (value: string): string[] => [option, value];

const FLAGS: Readonly<Record<string, Flag>> = {
  plan: { in: ['run'], words: plain('--plan') },
  config: { in: ALL, words: plain('--config') },
  shape: {
    in: ['run', 'verify', 'bench', 'profile'],
    words: (value) =>
      value
        .split(',')
        .map((shape) => shape.trim())
        .filter(Boolean)
        .flatMap((shape) => ['--shape', shape]),
  },
  cases: { in: ['run', 'verify'], words: plain('--cases') },
  seeds: { in: ['run', 'verify'], words: plain('--seeds') },
  tolerance: { in: ['run', 'verify'], words: plain('--tolerance') },
  seconds: { in: ['run', 'bench'], words: plain('--max-seconds') },
  samples: { in: ['run', 'bench'], words: plain('--samples') },
  arch: { in: ALL, words: plain('--arch') },
  registers: { in: ALL, words: plain('--max-registers') },
  'fast-math': { in: ALL, words: () => ['--fast-math'] },
  sanitizer: { in: ['run', 'verify'], words: () => ['--sanitize'] },
  metrics: { in: ['run', 'profile'], words: plain('--metrics') },
  device: { in: ALL, words: plain('--device') },
  champion: {
    in: ['run', 'bench'],
    words: (value) => (value === NONE ? ['--no-champion'] : ['--champion', value]),
  },
};

/** "fa-tui run ./mine --seeds 1": what is at its default is left out. */
export function commandLineOf(form: RunForm, defaults: RunForm): string {
  const phases = form.fields.find(({ id }) => id === 'phases');
  const action = ALL.find((name) => phases !== undefined && name === valueOf(phases)) ?? 'run';
  const options = form.fields.flatMap((field): string[] => {
    const usual = defaults.fields.find(({ id }) => id === field.id);
    if (usual !== undefined && valueOf(usual) === valueOf(field)) return [];
    if (field.id.startsWith('param:')) return ['--set', `${field.label}=${valueOf(field)}`];
    const flag = entryOf(FLAGS, field.id);
    return flag?.in.includes(action) ? flag.words(valueOf(field), field) : [];
  });
  return ['fa-tui', action, kernelKey(form.kernel), ...options].map(shellWord).join(' ');
}
