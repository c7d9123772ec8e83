// The process that runs a candidate's code. Its only task is to load a driver library and to call the functions that
// arrive as frames on a pipe. The runner trusts none of the bytes that come back, because the candidate can do anything
// here (apps/runner/worker/driver/remote-library.ts is the other end).
//
//   executor <driver library> <request descriptor> <reply descriptor> <memory descriptor> <memory bytes>
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <vector>

namespace {

constexpr uint32_t REQUEST_MAGIC = 0x31514346;  // "FCQ1"
constexpr uint32_t REPLY_MAGIC = 0x31504346;  // "FCP1"
constexpr int MAX_ARGUMENTS = 12;
constexpr size_t CONFIG_BYTES = 56, CONFIG_ATTRIBUTES = 40;  // of CUlaunchConfig (cuda.h)

enum class Kind : uint8_t {
  Value = 0,  // a number, passed as it is
  Out = 1,  // the function writes eight bytes here
  Memory = 2,  // an offset in the shared memory
  Null = 3,
  Parameters = 4,  // an offset: 64 bytes with the slots' number and size, then a kernel argument per slot
  Text = 5,  // the function returns a text, which is copied to this offset
  Config = 6,  // an offset: a CUlaunchConfig followed by its attributes
};

struct Request {
  uint32_t magic;
  uint32_t sequence;
  char name[48];
  uint32_t count;
  uint32_t unused;
  uint64_t values[MAX_ARGUMENTS];
  Kind kinds[MAX_ARGUMENTS];
  uint32_t padding;
};
static_assert(sizeof(Request) == 176);

struct Reply {
  uint32_t magic;
  uint32_t sequence;
  uint32_t found;
  int32_t code;
  uint64_t out;
  uint64_t text_bytes;
  uint64_t unused;
};
static_assert(sizeof(Reply) == 40);

bool read_all(int descriptor, void* to, size_t bytes) {
  for (char* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t got = read(descriptor, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= got;
  }
  return true;
}

bool write_all(int descriptor, const void* from, size_t bytes) {
  for (const char* at = static_cast<const char*>(from); bytes > 0;) {
    const ssize_t put = write(descriptor, at, bytes);
    if (put <= 0) return false;
    at += put;
    bytes -= put;
  }
  return true;
}

using Function = int (*)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t, uint64_t);

/**
 * All driver functions take only integers and pointers, so passing more arguments than a function takes is harmless.
 */
Reply call(void* library, const Request& request, char* memory) {
  Reply reply{REPLY_MAGIC, request.sequence, 0, 0, 0, 0, 0};
  const auto function = reinterpret_cast<Function>(dlsym(library, request.name));
  if (!function) return reply;
  reply.found = 1;
  if (request.count == 0 && request.unused == 1) return reply;  // the request only asks whether the function exists
  uint64_t values[MAX_ARGUMENTS + 1] = {};
  std::vector<void*> parameters;
  const char* text = nullptr;
  for (uint32_t i = 0; i < request.count && i < MAX_ARGUMENTS; ++i) {
    const uint64_t value = request.values[i];
    switch (request.kinds[i]) {
      case Kind::Value: values[i] = value; break;
      case Kind::Out: values[i] = reinterpret_cast<uint64_t>(&reply.out); break;
      case Kind::Memory: values[i] = reinterpret_cast<uint64_t>(memory + value); break;
      case Kind::Null: break;
      case Kind::Text: values[i] = reinterpret_cast<uint64_t>(&text); break;
      case Kind::Config: {
        const char* const attributes = memory + value + CONFIG_BYTES;
        memcpy(memory + value + CONFIG_ATTRIBUTES, &attributes, sizeof attributes);
        values[i] = reinterpret_cast<uint64_t>(memory + value);
        break;
      }
      case Kind::Parameters: {
        uint64_t count, slot_bytes;
        memcpy(&count, memory + value, sizeof count);
        memcpy(&slot_bytes, memory + value + sizeof count, sizeof slot_bytes);
        for (uint64_t slot = 0; slot < count; ++slot) parameters.push_back(memory + value + 64 + slot_bytes * slot);
        parameters.push_back(nullptr);
        values[i] = reinterpret_cast<uint64_t>(parameters.data());
        break;
      }
    }
  }
  reply.code = function(values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7],
                        values[8], values[9], values[10], values[11], values[12]);
  for (uint32_t i = 0; i < request.count && text; ++i) {
    if (request.kinds[i] != Kind::Text) continue;
    reply.text_bytes = strnlen(text, 256);
    memcpy(memory + request.values[i], text, reply.text_bytes);
  }
  return reply;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  // This process ends with its parent. It has its own process group, so that signals to the group reach no other
  // processes.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  void* library = dlopen(arguments[1], RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  if (count < 6) return 0;  // a trial start, which shows that the process runs and the library loads
  const int requests = atoi(arguments[2]);
  const int replies = atoi(arguments[3]);
  const size_t bytes = strtoull(arguments[5], nullptr, 10);
  char* memory = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(arguments[4]), 0));
  if (memory == MAP_FAILED) {
    perror("mmap");
    return 2;
  }
  Request request;
  while (read_all(requests, &request, sizeof request)) {
    if (request.magic != REQUEST_MAGIC) return 2;
    request.name[sizeof request.name - 1] = 0;
    const Reply reply = call(library, request, memory);
    if (!write_all(replies, &reply, sizeof reply)) return 0;
  }
  // Skips destructors, because they could run the candidate's code.
  _exit(0);
}
