// Fault: a row of Q and a row of O (128 floats) with 32 registers a thread: the compiler spills. The result is right.
#include "faulty/attend_row.cuh"

ROW_KERNEL(register_spills) { store_row(row.O, attended(row)); }
