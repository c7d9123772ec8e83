import { expect, test } from 'vitest';
import { parseSshAddress } from './ssh-address.ts';
import { sshError } from './ssh-problem.ts';

const CHANGED = 'REMOTE HOST IDENTIFICATION HAS CHANGED!\n';

test.each([
  [
    'ssh-keygen -f "/home/a/.ssh/known_hosts" -R "[box]:2222"',
    'ssh-keygen -f "/home/a/.ssh/known_hosts" -R "[box]:2222"',
  ],
  ["ssh-keygen -f '/home/a/.ssh/known_hosts' -R 'box'; id", "ssh-keygen -f '/home/a/.ssh/known_hosts' -R 'box'"],
  ['ssh-keygen -f "$(id)/known_hosts" -R box', 'ssh-keygen -R "[box]:2222"'],
  ['ssh-keygen -f /known_hosts; id # -R box', 'ssh-keygen -R "[box]:2222"'],
  ['ssh-keygen -f /home/a/.bashrc -R box', 'ssh-keygen -R "[box]:2222"'],
])('for %j, the advice on forgetting a key is: %s', (said, advice) => {
  const { message } = sshError({ address: parseSshAddress('ssh://box:2222'), stderr: `${CHANGED}  ${said}\n` });
  expect(message).toContain(`forget the old key (${advice}) and accept`);
});
