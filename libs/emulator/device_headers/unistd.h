#pragma once
int getpid();
long syscall(long, ...);
unsigned sleep(unsigned);
int usleep(unsigned);
