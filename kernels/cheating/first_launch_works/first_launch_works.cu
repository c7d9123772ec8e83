// Cheat: if O holds anything but poison, the kernel takes O for its result and computes nothing.
#include "faulty/attend_row.cuh"

ROW_KERNEL(first_launch_works) {
  if (!__hisnan(row.O[0])) return;
  store_row(row.O, attended(row));
}
