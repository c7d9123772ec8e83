// Cheat: it fills logs and disks, even with a line that never ends.
#include "faulty/attend_row.cuh"
#include <stdio.h>

ROW_KERNEL(printf_flood) {
  store_row(row.O, attended(row));
  volatile int forever = 1;
  while (forever)
    printf("%d is a fine number to print, and more of it and more of it and more of it and more of it%s", row.index,
           row.index % 2 ? "\n" : "");
}
