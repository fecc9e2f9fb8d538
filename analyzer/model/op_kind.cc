#include "analyzer/model/op_kind.h"

#include <cstddef>
#include <iterator>

namespace dlhook::analyzer::inline model {

std::string TypeName(DataType type) { return type == DataType::kUnknown ? "unknown" : EnumName(type); }

const char* DirectionName(Direction direction) {
  return NameIn<Direction::kBackward>(
      direction, {"unknown", "forward", "backward-data", "backward-weights", "backward-bias", "backward"});
}

const char* ChooserName(Chooser chooser) { return chooser == Chooser::kUnknown ? "" : EnumName(chooser); }

absl::string_view OpKindName(OpKind kind) {
  static constexpr absl::string_view kNames[] = {"allocation", "attention",     "batch_normalization",
                                                 "call",       "collective",    "convolution",
                                                 "copy",       "deconvolution", "eltwise",
                                                 "free",       "gemm",          "gemm3m",
                                                 "gemm_api",   "gemm_compute",  "gemmt",
                                                 "gemv",       "ger",           "inner_product",
                                                 "kernel",     "matmul",        "memset",
                                                 "pooling",    "reorder",       "rnn",
                                                 "search"};
  static_assert(std::size(kNames) == static_cast<size_t>(OpKind::kSearch) + 1);
  return kNames[static_cast<size_t>(kind)];
}

bool IsKind(const Op& op, std::initializer_list<OpKind> kinds) {
  return absl::c_any_of(kinds, [&](OpKind kind) { return IsKind(op, kind); });
}

}  // namespace dlhook::analyzer::model
