/** A kernel whose host code attacks, used as candidate by short and long tests of the sandbox. */
export const HOSTILE_MANIFEST = `
id: hostile
title: Host code that attacks
lesson: it must gain nothing
source: hostile.cu
min_arch: sm_80
math: { inputs: fp16, accumulate: fp32 }
launches:
  - { entry: hostile, grid: ["B * H", 1, 1], block: [64, 1, 1], arguments: [Q, K, V, O, S, D] }
`;

/** A kernel that writes zeros; `attack` is what its host code does once the module is loaded. */
export const hostileSource = (attack: string, atLaunch = ''): string => `
#include <cuda_fp16.h>
#ifdef FLASHCORE_EMULATOR
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>
static void* thread_body(void*);
__attribute__((constructor)) static void attack() { ${attack.includes('thread_body(') ? 'pthread_t t; pthread_create(&t, nullptr, thread_body, nullptr);' : attack} }
${attack.includes('thread_body(') ? attack : 'static void* thread_body(void*) { return nullptr; }'}
#endif
extern "C" __global__ void hostile(const half* Q, const half* K, const half* V, half* O, int S, int D) {
#ifdef FLASHCORE_EMULATOR
  if (threadIdx.x == 0 && blockIdx.x == 0) { ${atLaunch} }
#endif
  for (int i = threadIdx.x; i < S * D; i += blockDim.x) O[size_t(blockIdx.x) * S * D + i] = __float2half(0.0f);
}
`;

const NODE_HANDLE_ACK = String.raw`{\"cmd\":\"NODE_HANDLE_ACK\"}\n`;
const write = (bytes: string): string =>
  `for (int fd = 3; fd < 32; ++fd) for (int i = 0; i < 50; ++i) if (write(fd, ${bytes}, sizeof(${bytes}) - 1) < 0) break;`;

export const ATTACKS: Record<string, string> = {
  'garbage on every descriptor': write('"garbage garbage garbage garbage garbage garbage "'),
  'undefined, as a message': write(String.raw`"undefined\n"`),
  "Node's own message": write(`"${NODE_HANDLE_ACK}"`),
  'a length of 2 GiB': write(
    String.raw`"\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f\xff\xff\xff\x7f"`,
  ),
  'a seed of 1e30': write(String.raw`"{\"type\":\"seed\",\"index\":1e30}\n"`),
  'a forged end': write(String.raw`"{\"type\":\"done\",\"value\":{\"seeds\":1,\"mismatches\":0}}\n"`),
  'a forged step': write(String.raw`"{\"type\":\"step\",\"what\":\"x\",\"limitMs\":1e9}\n"`),
  'replies of its own':
    'for (uint32_t n = 1; n < 200; ++n) { unsigned char f[40] = {}; uint32_t m = 0x31504346; memcpy(f, &m, 4); memcpy(f + 4, &n, 4); f[8] = 1; if (write(4, f, 40) < 0) break; }',
  'a text of four billion bytes':
    'for (uint32_t n = 1; n < 200; ++n) { unsigned char f[40]; memset(f, 0xff, 40); uint32_t m = 0x31504346; memcpy(f, &m, 4); memcpy(f + 4, &n, 4); if (write(4, f, 40) < 0) break; }',
  'closed descriptors': 'for (int fd = 0; fd < 64; ++fd) close(fd);',
  'a shorter memory': 'for (int fd = 3; fd < 32; ++fd) if (ftruncate(fd, 0) < 0) continue; _exit(0);',
  'exit status 0': '_exit(0);',
  'kill of its group and its parent': 'kill(0, SIGKILL); kill(getppid(), SIGKILL); kill(-1, SIGKILL);',
  'an abort': 'abort();',
};

/** One kernel with all attacks: the sequence length selects the attack that its first thread makes. */
export const chosenAttack = (): string => {
  const cases = Object.values(ATTACKS).map((attack, index) => `case ${FIRST_LENGTH + index}: { ${attack} } break;`);
  return `switch (S) { ${cases.join('\n')} }`;
};
export const FIRST_LENGTH = 64;
