// The clock functions that host functions may call.
#pragma once
#include <cuda_runtime.h>

using time_t = long;
using clock_t = long;
#define CLOCKS_PER_SEC 1000000
struct timespec {
  time_t tv_sec;
  long tv_nsec;
};
struct timeval {
  time_t tv_sec;
  long tv_usec;
};
struct tm {
  int tm_sec, tm_min, tm_hour, tm_mday, tm_mon, tm_year;
};
#define CLOCK_REALTIME 0
#define CLOCK_MONOTONIC 1
time_t time(time_t*);
// A host overload of CUDA's clock(), which device functions call.
__attribute__((host)) clock_t clock();
int clock_gettime(int, timespec*);
int gettimeofday(timeval*, void*);
tm* localtime(const time_t*);
tm* localtime_r(const time_t*, tm*);
size_t strftime(char*, size_t, const char*, const tm*);
