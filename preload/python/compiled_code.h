// What torch.compile keeps of its work: regions, graph breaks, kernels (trace::CompiledCode).
#ifndef DLHOOK_PRELOAD_PYTHON_COMPILED_CODE_H_
#define DLHOOK_PRELOAD_PYTHON_COMPILED_CODE_H_

namespace dlhook::inline python {

// Reads it by the Python text compiled_code.py, unless the program has compiled nothing, and writes its records. Thread:
// one of Python's, with the GIL, when the interpreter ends; no exception is pending before or after.
void RecordCompiledCode();

// Has it keep the modules of each graph by the Python text compiled_hook.py, from the next graph on (DLHOOK_COMPILED=modules).
// Thread: one of Python's, with the GIL, while the program compiles; no exception is pending before or after.
void AskForModules();

}  // namespace dlhook::inline python

#endif  // DLHOOK_PRELOAD_PYTHON_COMPILED_CODE_H_
