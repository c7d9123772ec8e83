/** nx can do all daily work: every project has the four targets, and nx starts a runner and the terminal program. */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Terminal } from '@flashcore/tools/terminal';
import { Home, ROOT } from '../support/home.ts';
import { waitFor, temporaryFolder } from '@flashcore/shared/testing';

const NX = join(ROOT, 'node_modules/.bin/nx');

/**
 * Names of all projects, and of the projects that have a target; from a single run of nx, because each run takes
 * seconds.
 */
function projectsByTarget(): { projects: string[]; withTarget: (target: string) => string[] } {
  using folder = temporaryFolder();
  const file = join(folder.path, 'graph.json');
  const { status, stdout, stderr } = spawnSync(NX, ['graph', `--file=${file}`], { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`nx graph: ${stdout}${stderr}`);
  const { graph } = JSON.parse(readFileSync(file, 'utf8')) as {
    graph: { nodes: Record<string, { data: { targets: object } }> };
  };
  const nodes = Object.entries(graph.nodes).toSorted(([one], [other]) => (one < other ? -1 : 1));
  return {
    projects: nodes.map(([name]) => name),
    withTarget: (target) => nodes.filter(([, { data }]) => target in data.targets).map(([name]) => name),
  };
}
const { projects: PROJECTS, withTarget } = projectsByTarget();
/** The root project. It has formatting and Markdown, but no code. */
const ROOT_PROJECT = 'workspace';

test('every project has build, lint, typecheck and test', () => {
  expect(withTarget('build')).toEqual(PROJECTS);
  expect(withTarget('lint')).toEqual(PROJECTS);
  const ofCode = PROJECTS.filter((name) => name !== ROOT_PROJECT);
  expect(withTarget('typecheck')).toEqual(ofCode);
  expect(withTarget('test')).toEqual(ofCode);
});

test('`nx run-many -t test` runs the same tests as `npm test`: one vitest project per nx project, with the same name', async () => {
  const { default: config } = (await import(join(ROOT, 'vitest.config.ts'))) as {
    default: { test: { projects: { test: { name: string } }[] } };
  };
  const { projects } = config.test;
  expect(projects.map(({ test: { name } }) => name).toSorted()).toEqual(withTarget('test'));
  const { targetDefaults } = JSON.parse(readFileSync(join(ROOT, 'nx.json'), 'utf8')) as {
    targetDefaults: { test: { options: { command: string } } };
  };
  expect(targetDefaults.test.options.command).toBe('vitest run --project {projectName}');
});

test(
  '`nx serve runner` serves, and a second `nx serve runner` says in one line why it cannot',
  { timeout: 120_000 },
  async () => {
    await using home = new Home();
    const address = `unix:${join(home.path, 's')}`;
    const command = ['serve', 'runner', '--address', address, '--data', home.path];
    const first = spawn(NX, command, { cwd: ROOT, env: home.env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [first.stdout, first.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
      });
    const ended = new Promise((resolve) => first.on('exit', resolve));
    try {
      await waitFor('the runner to serve', () => {
        if (first.exitCode !== null) throw new Error(output);
        return output.includes(`serves on ${address}`) || undefined;
      });
      const { exitCode, stdout } = home.faTui(['--runner', address, 'host', '--json']);
      expect({ exitCode, host: JSON.parse(stdout) as object }).toMatchObject({ exitCode: 0, host: { host: {} } });
      const second = spawnSync(NX, command, { cwd: ROOT, env: home.env, encoding: 'utf8' });
      expect(second.status).not.toBe(0);
      expect(`${second.stdout}${second.stderr}`.split('\n').filter((line) => line.includes('serves'))).toEqual([
        `flashcore-runner: A runner serves ${home.path} already (process ${home.runnerInfo()!.pid}): use that one, or stop it, or give this one another --data directory: two can't share one`,
      ]);
    } finally {
      // Signals the whole process group, as Ctrl-C in a terminal does.
      process.kill(-first.pid!, 'SIGINT');
      await ended;
    }
    await waitFor('the runner to end', () => home.runnerInfo() === undefined || undefined);
  },
);

test('`nx serve tui` opens the terminal program, and q leaves it', { timeout: 120_000 }, async () => {
  await using home = new Home();
  const terminal = new Terminal(NX, ['serve', 'tui'], { columns: 100, rows: 30, cwd: ROOT, env: home.env });
  try {
    await terminal.waitFor(/\[\d Kernels\]|Kernels/, 60_000);
    terminal.type('8');
    await terminal.waitFor(/\[8 Host\]/);
    // Waits for the runner, which would otherwise start after the test has removed the folder, and create it again.
    await waitFor('the runner to start', () => home.runnerInfo());
    terminal.type('q');
    expect(await terminal.exit).toBe(0);
  } finally {
    terminal.kill('SIGKILL');
  }
});
