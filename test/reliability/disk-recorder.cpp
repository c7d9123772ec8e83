// Loaded into a runner with LD_PRELOAD. Records, in order and with the time, everything that the runner does to files
// below FLASHCORE_DISK_ROOT, so that a test can recreate the disk after a power cut at any of these moments. The record
// consists of the file $FLASHCORE_DISK_LOG, one line per operation, and $FLASHCORE_DISK_LOG.data with the written
// bytes. Programs that the runner starts are not recorded.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

namespace {

struct Open {
  std::string folder;  // its path if this is a folder, "" if it is a file
  long file = 0;
  bool appends = false;
  ino_t inode = 0;
};

std::mutex lock;
std::string root;
int log_fd = -1;
int data_fd = -1;
long last_file = 0;
long last_sync = 0;
long data_bytes = 0;
std::map<int, Open> opened;
std::map<std::string, long> named;

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

void put(int fd, const char* bytes, size_t length) {
  static auto* real_write = real<ssize_t(int, const void*, size_t)>("write");
  while (length > 0) {
    const ssize_t written = real_write(fd, bytes, length);
    if (written <= 0) abort();
    bytes += written;
    length -= static_cast<size_t>(written);
  }
}

void note(const std::string& what) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const std::string line = std::to_string(now.tv_sec * 1000000000LL + now.tv_nsec) + "\t" + what + "\n";
  put(log_fd, line.data(), line.size());
}

__attribute__((constructor)) void begin() {
  const char* log = getenv("FLASHCORE_DISK_LOG");
  const char* folder = getenv("FLASHCORE_DISK_ROOT");
  if (!log || !folder) return;
  auto* real_open = real<int(const char*, int, ...)>("open");
  root = folder;
  log_fd = real_open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  data_fd = real_open((std::string(log) + ".data").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (log_fd < 0 || data_fd < 0) abort();
  unsetenv("LD_PRELOAD");
  unsetenv("FLASHCORE_DISK_LOG");
}

bool recorded(const char* path) { return log_fd >= 0 && path && std::string(path).compare(0, root.size(), root) == 0; }

// Compares inodes, because a direct system call may close a descriptor, which another file then reuses.
bool recording(int fd) {
  struct stat found;
  const auto open = opened.find(fd);
  return log_fd >= 0 && open != opened.end() && fstat(fd, &found) == 0 && found.st_ino == open->second.inode;
}

int open_with(const char* function, const char* path, int flags, mode_t mode) {
  auto* real_open = real<int(const char*, int, ...)>(function);
  if (!recorded(path)) return real_open(path, flags, mode);
  const std::lock_guard<std::mutex> guard(lock);
  struct stat before;
  const bool there = lstat(path, &before) == 0;
  const int fd = real_open(path, flags, mode);
  if (fd < 0) return fd;
  struct stat found;
  if (fstat(fd, &found) != 0) return fd;
  if (S_ISDIR(found.st_mode)) {
    opened[fd] = {path, 0, false, found.st_ino};
    return fd;
  }
  if (!S_ISREG(found.st_mode)) return fd;
  if (!there) {
    named[path] = ++last_file;
    note("create\t" + std::to_string(last_file) + "\t" + path);
  }
  const long file = named[path];
  if (there && (flags & O_TRUNC)) note("truncate\t" + std::to_string(file) + "\t0");
  opened[fd] = {"", file, (flags & O_APPEND) != 0, found.st_ino};
  return fd;
}

mode_t mode_of(int flags, va_list more) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(more, int)) : 0;
}

void note_write(int fd, off_t offset, const char* bytes, ssize_t length) {
  if (length <= 0) return;
  put(data_fd, bytes, static_cast<size_t>(length));
  note("write\t" + std::to_string(opened[fd].file) + "\t" + std::to_string(offset) + "\t" + std::to_string(length) +
       "\t" + std::to_string(data_bytes));
  data_bytes += length;
}

off_t position_of(int fd) {
  struct stat found;
  if (opened[fd].appends && fstat(fd, &found) == 0) return found.st_size;
  return lseek(fd, 0, SEEK_CUR);
}

int sync_with(const char* function, int fd) {
  auto* real_sync = real<int(int)>(function);
  std::string what;
  {
    const std::lock_guard<std::mutex> guard(lock);
    if (recording(fd)) {
      const Open& open = opened[fd];
      const std::string number = std::to_string(++last_sync);
      note("sync\t" + number + "\t" + (open.folder.empty() ? std::to_string(open.file) : open.folder));
      what = "synced\t" + number;
    }
  }
  const int result = real_sync(fd);
  if (result == 0 && !what.empty()) {
    const std::lock_guard<std::mutex> guard(lock);
    note(what);
  }
  return result;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_with("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = mode_of(flags, more);
  va_end(more);
  return open_with("open64", path, flags, mode);
}

int close(int fd) {
  static auto* real_close = real<int(int)>("close");
  if (log_fd < 0) return real_close(fd);
  const std::lock_guard<std::mutex> guard(lock);
  opened.erase(fd);
  return real_close(fd);
}

ssize_t write(int fd, const void* bytes, size_t length) {
  static auto* real_write = real<ssize_t(int, const void*, size_t)>("write");
  if (log_fd < 0) return real_write(fd, bytes, length);
  std::unique_lock<std::mutex> guard(lock);
  if (!recording(fd)) {
    guard.unlock();
    return real_write(fd, bytes, length);
  }
  const off_t offset = position_of(fd);
  const ssize_t written = real_write(fd, bytes, length);
  note_write(fd, offset, static_cast<const char*>(bytes), written);
  return written;
}

ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t offset) {
  static auto* real_write = real<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  const std::lock_guard<std::mutex> guard(lock);
  const ssize_t written = real_write(fd, bytes, length, offset);
  if (recording(fd)) note_write(fd, offset, static_cast<const char*>(bytes), written);
  return written;
}

int ftruncate64(int fd, off64_t length) {
  static auto* real_truncate = real<int(int, off64_t)>("ftruncate64");
  const std::lock_guard<std::mutex> guard(lock);
  const int result = real_truncate(fd, length);
  if (result == 0 && recording(fd))
    note("truncate\t" + std::to_string(opened[fd].file) + "\t" + std::to_string(length));
  return result;
}

int fsync(int fd) { return sync_with("fsync", fd); }
int fdatasync(int fd) { return sync_with("fdatasync", fd); }

int rename(const char* from, const char* to) {
  static auto* real_rename = real<int(const char*, const char*)>("rename");
  if (!recorded(from)) return real_rename(from, to);
  const std::lock_guard<std::mutex> guard(lock);
  const int result = real_rename(from, to);
  if (result != 0) return result;
  std::map<std::string, long> moved;
  const std::string folder = std::string(from) + "/";
  for (const auto& [path, file] : named) {
    if (path == from)
      moved[to] = file;
    else if (path.compare(0, folder.size(), folder) == 0)
      moved[std::string(to) + "/" + path.substr(folder.size())] = file;
    else if (path != to)
      moved[path] = file;
  }
  named.swap(moved);
  note(std::string("rename\t") + from + "\t" + to);
  return result;
}

int unlink(const char* path) {
  static auto* real_unlink = real<int(const char*)>("unlink");
  if (!recorded(path)) return real_unlink(path);
  const std::lock_guard<std::mutex> guard(lock);
  const int result = real_unlink(path);
  if (result == 0) {
    named.erase(path);
    note(std::string("unlink\t") + path);
  }
  return result;
}

int rmdir(const char* path) {
  static auto* real_rmdir = real<int(const char*)>("rmdir");
  if (!recorded(path)) return real_rmdir(path);
  const std::lock_guard<std::mutex> guard(lock);
  const int result = real_rmdir(path);
  if (result == 0) note(std::string("rmdir\t") + path);
  return result;
}

int mkdir(const char* path, mode_t mode) {
  static auto* real_mkdir = real<int(const char*, mode_t)>("mkdir");
  if (!recorded(path)) return real_mkdir(path, mode);
  const std::lock_guard<std::mutex> guard(lock);
  const int result = real_mkdir(path, mode);
  if (result == 0) note(std::string("mkdir\t") + path);
  return result;
}
}
