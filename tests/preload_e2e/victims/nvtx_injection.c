/* Another tool for NVTX: prints the pushed ranges. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef void (*Function)(void);
typedef struct {
  size_t struct_size;
  int (*get_module_function_table)(int module, Function*** table, unsigned* size);
} Callbacks;
typedef const void* (*GetExportTable)(uint32_t id);

static int push(const char* message) {
  printf("pushed %s\n", message);
  return 0;
}

static int pop(void) {
  puts("popped");
  return 0;
}

int InitializeInjectionNvtx2(GetExportTable get_export_table) {
  const Callbacks* callbacks = get_export_table(1 /* NVTX_ETID_CALLBACKS */);
  Function** table = NULL;
  unsigned size = 0;
  callbacks->get_module_function_table(1 /* NVTX_CB_MODULE_CORE */, &table, &size);
  *table[9 /* NVTX_CBID_CORE_RangePushA */] = (Function)push;
  *table[11 /* NVTX_CBID_CORE_RangePop */] = (Function)pop;
  return 1;
}
