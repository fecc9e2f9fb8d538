#include "analyzer/model/op.h"

#include <iterator>

namespace dlhook::analyzer::inline model {

std::string TypeName(DataType type) { return type == DataType::kUnknown ? "unknown" : EnumName(type); }

const char* DirectionName(Direction direction) {
  constexpr const char* kNames[] = {"unknown",       "forward",  "backward-data", "backward-weights",
                                    "backward-bias", "backward", "update"};
  static_assert(std::size(kNames) == static_cast<size_t>(Direction::kUpdate) + 1);
  return kNames[static_cast<size_t>(direction)];
}

const char* ChooserName(Chooser chooser) { return chooser == Chooser::kUnknown ? "" : EnumName(chooser); }

}  // namespace dlhook::analyzer::model
