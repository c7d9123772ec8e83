// Fault: the manifest launches missing_entry, but the source defines only missing_entry_old. The source compiles.
#include "faulty/attend_row.cuh"

ROW_KERNEL(missing_entry_old) { store_row(row.O, attended(row)); }
