// The NVTX tap: ranges pushed by programs and libraries (torch.cuda.nvtx, emit_nvtx, XLA, DALI, NCCL, cuDNN) become
// scopes.
//
// NVTX is a header: each library that pushes ranges has its own copy of a few function pointers. At its first call it
// asks getenv for NVTX_INJECTION64_PATH, loads that library and calls its InitializeInjectionNvtx2, which may set the
// pointers. If the user set no injection the answer is the shim's path (nvtx_hooks.cc).
// Thread: any application thread.
#pragma once

#include "preload/format/record.h"

namespace dlhook::inline tap {

// The name of a range: "message", or "domain: message". Not terminated.
struct NvtxName {
  size_t bytes;  // of `text`; more than kMaxScopeNameBytes: truncated
  int64_t link;  // the sequence number in messages of torch's emit_nvtx, -1: none
  char text[kMaxScopeNameBytes + 8];
};

// `message` is UTF-8 (A) or wchar_t (W); either may be null. emit_nvtx's "aten::conv2d, seq = 17, op_id = 4" becomes
// aten::conv2d: otherwise every range would have its own name. Pure: unit-tested.
void ComposeNvtxName(const char* domain, const char* message, NvtxName* name);
void ComposeNvtxName(const char* domain, const wchar_t* message, NvtxName* name);

// UTF-8 of at most `size` - 1 bytes, and a NUL, truncated between characters. Returns the bytes written, without the
// NUL.
size_t Utf8FromWide(const wchar_t* text, char* buffer, size_t size);

}  // namespace dlhook::inline tap
