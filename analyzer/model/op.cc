#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline model {

std::string TypeName(DataType type) { return type == DataType::kUnknown ? "unknown" : EnumName(type); }

const char* DirectionName(Direction direction) {
  switch (direction) {
    case Direction::kForward:
      return "forward";
    case Direction::kBackwardData:
      return "backward-data";
    case Direction::kBackwardWeights:
      return "backward-weights";
    case Direction::kBackwardBias:
      return "backward-bias";
    case Direction::kBackward:
      return "backward";
    case Direction::kUpdate:
      return "update";
    case Direction::kUnknown:
      break;
  }
  return "unknown";
}

const char* ChooserName(Chooser chooser) { return chooser == Chooser::kUnknown ? "" : EnumName(chooser); }

}  // namespace dlhook::analyzer::model
