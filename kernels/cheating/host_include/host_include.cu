// Cheat: it includes a file of the host, whose text the compiler would quote in its messages.
#include "faulty/attend_row.cuh"
#include "/etc/passwd"

ROW_KERNEL(host_include) { store_row(row.O, attended(row)); }
