// The binary interface between NVTX (header-only, compiled into the host's libraries) and an injection, as far as the
// tap needs it: dlhook builds without CUDA's headers. tests/preload/nvtx_test.cc compares with them if installed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook::inline abi {

// NvtxExportTableID
constexpr uint32_t kNvtxCallbacksTable = 1;

// NvtxCallbackModule
enum NvtxModule : int { kNvtxCore = 1, kNvtxCore2 = 5 };

// NvtxCallbackIdCore
enum NvtxCoreCallback : unsigned {
  kNvtxRangeStartEx = 4,
  kNvtxRangeStartA = 5,
  kNvtxRangeStartW = 6,
  kNvtxRangeEnd = 7,
  kNvtxRangePushEx = 8,
  kNvtxRangePushA = 9,
  kNvtxRangePushW = 10,
  kNvtxRangePop = 11,
};

// NvtxCallbackIdCore2
enum NvtxCore2Callback : unsigned {
  kNvtxDomainRangeStartEx = 2,
  kNvtxDomainRangeEnd = 3,
  kNvtxDomainRangePushEx = 4,
  kNvtxDomainRangePop = 5,
  kNvtxDomainRegisterStringA = 10,
  kNvtxDomainRegisterStringW = 11,
  kNvtxDomainCreateA = 12,
  kNvtxDomainCreateW = 13,
};

using NvtxFunction = void (*)();
// An array of pointers to the variables through which NVTX calls, by callback.
using NvtxFunctionTable = NvtxFunction**;

struct NvtxCallbacksTable {
  size_t struct_size;
  int (*get_module_function_table)(int module, NvtxFunctionTable* table, unsigned* size);
};
using NvtxGetExportTable = const void* (*)(uint32_t id);

// nvtxMessageType_t
enum class NvtxMessageType : int32_t { kUnknown = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };

// nvtxEventAttributes_v2
struct NvtxEventAttributes {
  uint16_t version;
  uint16_t size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  uint64_t payload;
  NvtxMessageType message_type;
  const void* message;
};
static_assert(sizeof(NvtxEventAttributes) == 48);

// The result of nvtxRangePush and nvtxRangePop without an injection, that is, without a depth counter.
constexpr int kNvtxNoDepth = -2;

}  // namespace dlhook::inline abi
