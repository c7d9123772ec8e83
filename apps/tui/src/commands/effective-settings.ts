import { existsSync } from 'node:fs';
import path from 'node:path';
import { PROBLEMS_VARIABLE } from '@flashcore/shared/kernels';
import { RunnerProfiles } from '@flashcore/shared/logins';
import { dataDirectory } from '../connection/data-directory.ts';
import { takesUnicode } from '../present/cells/theme.ts';
import { shownCommand } from '../remote/hooks.ts';
import { findProject, isLogin } from '../settings/project.ts';
import { readSettings, settingsFile, type Settings } from '../settings/settings.ts';
import { CHAMPIONS_FOLDER } from './champions.ts';
import type { GlobalOptions } from './options.ts';

/** The value of a setting with this command line, and where the value comes from. */
export interface EffectiveSetting {
  readonly name: string;
  readonly value: string | boolean;
  /** Where the value comes from, such as "default", the settings file, "$NO_COLOR" or "--runner". */
  readonly from: string;
}

type Source = readonly [from: string, value: string | boolean | undefined];

const HIDDEN = 'set, not shown';

/** The setting from the first source with a value. The last source is the default. */
function first(name: string, ...sources: readonly Source[]): EffectiveSetting {
  const found = sources.find(([, value]) => value !== undefined)!;
  return { name, value: found[1]!, from: found[0] };
}

/** The default as a source. */
const byDefault = (value: string | boolean): Source => ['default', value];

/**
 * Every setting with its value and the source of the value: a flag, the environment, the project, the settings file or
 * the default. Each setting has its own order of precedence. Errors: those of readSettings().
 */
export function effectiveSettings(options: GlobalOptions, environment: NodeJS.ProcessEnv): EffectiveSetting[] {
  const file = settingsFile(environment);
  const settings = readSettings(environment);
  const env = (variable: string): Source => [`$${variable}`, environment[variable] || undefined];
  const inFile = (key: Exclude<keyof Settings, 'theme' | 'hooks' | 'keys'>): Source => [file, settings[key]];
  const project = findProject(process.cwd());
  const inProject = (key: 'runner' | 'plan' | 'kernels' | 'problems' | 'champions'): Source => [
    project?.file ?? '',
    project?.[key],
  ];
  const isRefused = project?.runner !== undefined && !isLogin(project.runner, environment);
  const flag = (name: string, value: string | boolean | undefined): Source => [`--${name}`, value];
  const isOn = (variable: string, on: string): Source => [
    `$${variable}`,
    environment[variable] === on ? true : undefined,
  ];
  // Other people may have written flashcore.yaml, so it must not choose a host that gets credentials from flags and
  // variables.
  const byProject = !options.runner && !environment['FLASHCORE_RUNNER'] && project?.runner !== undefined;
  const credential = (variable: string): Source => (byProject ? [variable, undefined] : env(variable));
  const locale: Source = ['the locale', takesUnicode(environment) ? undefined : true];
  const logins = new RunnerProfiles(environment);
  return [
    first(
      'runner',
      flag('runner', options.runner),
      env('FLASHCORE_RUNNER'),
      isRefused ? [`${project.file}: refused, it is not one of your logins`, project.runner] : inProject('runner'),
      inFile('runner'),
      byDefault('one of this machine, started on demand'),
    ),
    first(
      'start_runner',
      flag('start-runner', options.startRunner),
      isOn('FLASHCORE_START_RUNNER', '1'),
      inFile('start_runner'),
      byDefault(false),
    ),
    first('tls_ca', flag('tls-ca', options.tlsCa), credential('FLASHCORE_TLS_CA'), byDefault("the login's")),
    first('tls_cert', flag('tls-cert', options.tlsCert), credential('FLASHCORE_TLS_CERT'), byDefault("the login's")),
    first('tls_key', flag('tls-key', options.tlsKey), credential('FLASHCORE_TLS_KEY'), byDefault("the login's")),
    first(
      'token',
      ['$FLASHCORE_TOKEN', credential('FLASHCORE_TOKEN')[1] === undefined ? undefined : HIDDEN],
      byDefault("the login's"),
    ),
    first(
      'colors',
      flag('color', options.color === 'auto' ? undefined : options.color),
      [file, settings.colors === 'auto' ? undefined : settings.colors],
      ['$NO_COLOR', environment['NO_COLOR'] ? 'none' : undefined],
      byDefault('auto'),
    ),
    first('background', inFile('background'), byDefault('auto')),
    first('ascii', flag('ascii', options.ascii), inFile('ascii'), isOn('FA_TUI_ASCII', '1'), locale, byDefault(false)),
    first('mouse', flag('mouse', options.mouse), inFile('mouse'), byDefault(false)),
    first(
      'inline',
      flag('inline', options.inline),
      inFile('inline'),
      isOn('INK_SCREEN_READER', 'true'),
      byDefault(false),
    ),
    first('restore_view', inFile('restore_view'), byDefault(true)),
    first('editor', inFile('editor'), env('VISUAL'), env('EDITOR'), byDefault('vi')),
    ...Object.entries(settings.theme ?? {}).flatMap(([role, style]) =>
      style === undefined ? [] : [{ name: `theme.${role}`, value: style, from: file }],
    ),
    ...Object.entries(settings.keys ?? {}).map(([id, keys]) => ({
      name: `keys.${id}`,
      value: keys.join(' '),
      from: file,
    })),
    ...Object.entries(settings.hooks ?? {}).flatMap(([runner, hooks]) =>
      Object.entries(hooks).map(([key, value]) => ({
        name: `hooks.${runner}.${key}`,
        value: Array.isArray(value) ? shownCommand(value) : String(value),
        from: file,
      })),
    ),
    first('settings file', ['$FA_TUI_CONFIG', environment['FA_TUI_CONFIG'] || undefined], byDefault(withState(file))),
    first(
      'logins',
      ['$FLASHCORE_CONFIG', environment['FLASHCORE_CONFIG'] || undefined],
      byDefault(withState(logins.file)),
    ),
    first('plan', inProject('plan'), byDefault("the runner's")),
    first('kernels', inProject('kernels'), byDefault("the runner's alone")),
    first('problems', inProject('problems'), env(PROBLEMS_VARIABLE), byDefault("flashcore's alone")),
    first('champions', inProject('champions'), byDefault(path.resolve(CHAMPIONS_FOLDER))),
    first('data', env('FLASHCORE_HOME'), byDefault(dataDirectory(environment))),
  ];
}

const withState = (file: string): string => (existsSync(file) ? file : `${file} (there is none)`);
