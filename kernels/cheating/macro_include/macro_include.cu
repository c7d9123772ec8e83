// Cheat: a macro names the included file, so that a search for #include lines does not find the name.
#include "faulty/attend_row.cuh"
#define PLACE \
  "/etc/pass" \
  "wd"
#include PLACE

ROW_KERNEL(macro_include) { store_row(row.O, attended(row)); }
