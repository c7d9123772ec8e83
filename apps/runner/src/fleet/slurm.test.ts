import { expect, test } from 'vitest';
import { parseFleet } from './fleet-file.ts';
import { pilotScript } from './slurm.ts';

const FLEET = `
listen: 127.0.0.1:7000
reach: head:7000
bundle: /opt/flashcore
scratch: /scratch/flashcore
tls_ca: /opt/ca.crt
partitions: [{ partition: gpu, device: NVIDIA H200, max: 2 }]
`;

test('pilots box what clients send as the gateway is told to: where its clients authenticate, or not at all', () => {
  expect(pilotScript(parseFleet(FLEET, 'fleet.yaml'), 'required')).toBe(
    "#!/bin/sh\nexec '/opt/flashcore/flashcore-runner' pilot --gateway 'head:7000' --data '/scratch/flashcore' --isolation required --tls-ca '/opt/ca.crt'\n",
  );
});
