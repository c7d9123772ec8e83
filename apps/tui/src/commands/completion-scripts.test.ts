/** Tests completion in real shells: each sources the output of `fa-tui completion` and completes a line. */
import { execFileSync, spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { ALL_TESTS, inFull, missing } from '@flashcore/shared/testing';
import { shellWord } from '@flashcore/shared/text';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

const BIN = fileURLToPath(new URL('../../bin/fa-tui.js', import.meta.url));

let home: string;
let environment: NodeJS.ProcessEnv;
beforeAll(() => {
  home = mkdtempSync(path.join(tmpdir(), 'fa-'));
  // The program is in PATH under its own name.
  writeFileSync(path.join(home, 'fa-tui'), `#!/bin/sh\nexec ${shellWord(process.execPath)} ${shellWord(BIN)} "$@"\n`);
  chmodSync(path.join(home, 'fa-tui'), 0o755);
  environment = {
    ...process.env,
    PATH: `${home}:${process.env['PATH']}`,
    FLASHCORE_HOME: home,
    HOME: home,
    FLASHCORE_RUNNER: '',
  };
  for (const shell of ['bash', ...(['zsh', 'fish'] as const).filter((name) => !missing(name))])
    writeFileSync(path.join(home, shell), execFileSync(BIN, ['completion', shell], { env: environment }));
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** Bash's completions for these words, with the cursor at the last one. */
function inBash(...words: string[]): string[] {
  const script = `source "${home}/bash"
complete -p fa-tui >/dev/null || exit 1
COMP_WORDS=(fa-tui "$@"); COMP_CWORD=$#; COMP_LINE="\${COMP_WORDS[*]}"; COMP_POINT=\${#COMP_LINE}
_fa_tui fa-tui 2>/dev/null
printf '%s\\n' "\${COMPREPLY[@]}"`;
  return linesOf(
    execFileSync('bash', ['--norc', '-c', script, 'bash', ...words], { env: environment, encoding: 'utf8' }),
  );
}

function inFish(line: string): string[] {
  const script = `source "${home}/fish"; complete -C ${JSON.stringify(line)}`;
  return linesOf(execFileSync('fish', ['--no-config', '-c', script], { env: environment, encoding: 'utf8' }));
}

const linesOf = (text: string): string[] => text.split('\n').filter((line) => line !== '');

/** The line in zsh after Tab. */
async function inZsh(line: string): Promise<string> {
  const setup = `PROMPT='> '; autoload -U compinit; compinit -u -D; source "${home}/zsh"; LISTMAX=0; zstyle ':completion:*' menu no`;
  // The widget completes the line and then writes it to a file.
  const script = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell ${shellWord(setup)}
zpty -w shell ${shellWord(`show() { zle complete-word; print -r -- "$BUFFER" > "${home}/line"; }; zle -N show; bindkey '^X' show; print ready`)}
zpty -n -w shell ${shellWord(line)}$'\\x18'
for i in {1..200}; do [[ -s "${home}/line" ]] && break; zpty -r -t shell ignored; sleep 0.05; done
cat "${home}/line"`;
  const child = spawn('zsh', ['-f', '-c', script], { env: { ...environment, TERM: 'xterm' } });
  let text = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => void (text += piece));
  await new Promise((resolve) => child.once('close', resolve));
  return text.trimEnd();
}

describe('bash', () => {
  test('completes commands, options, their values, and a value after "="', () => {
    const short: [words: string[], offers: string[]][] = [
      [['tu'], ['tune']],
      // Bash breaks words at "=".
      [['leaderboard', '--mode', '=', 'c'], ['cold']],
    ];
    const long: typeof short = [
      [['leaderboard', '--mo'], ['--mode']],
      [['problem', 'check', 'rms'], ['rmsnorm']],
      [
        ['leaderboard', '--mode', ''],
        ['hot', 'cold'],
      ],
      [
        ['config', ''],
        ['show', 'path', 'validate', 'schema'],
      ],
      [['--color', 'ne'], ['never']],
      [
        ['problem', ''],
        ['list', 'check', 'import'],
      ],
      [['problem', 'import', ''], []],
      [['problem', 'check', '--dtype', 'b'], ['bf16']],
    ];
    for (const [words, offers] of inFull([...short, ...long], (each) => short.includes(each)))
      expect(inBash(...words), words.join(' ')).toEqual(offers);
  });

  test("without a runner it offers this clone's kernels and no jobs, and starts no runner", () => {
    expect(inBash('run', 'fa_v')).toEqual(['fa_v1_baseline', 'fa_v2_wmma']);
    if (ALL_TESTS) {
      expect(inBash('run', 'fa_v2_wmma', '--set', '')).toContain('USE_WMMA=');
      expect(inBash('verify', '--cases', 'par')).toEqual(['parity']);
      expect(inBash('run', '--plan', 'phase1')).toEqual(['phase1']);
      expect(inBash('verify', '--tolerance', '')).toContain('parity');
    }
    expect(inBash('watch', '')).toEqual([]);
    expect(existsSync(path.join(home, 'runner.json'))).toBe(false);
  });
});

test.skipIf(missing('fish'))('fish completes with descriptions', () => {
  expect(inFish('fa-tui leaderb')).toEqual([
    'leaderboard\tlist the best result of each kernel variant and of SDPA, fastest first',
  ]);
  if (ALL_TESTS) expect(inFish('fa-tui evolve --config f')).toEqual(['free', 'full']);
});

test.skipIf(missing('zsh'))('zsh completes the line', async () => {
  expect(await inZsh('fa-tui leaderb')).toBe('fa-tui leaderboard');
});
