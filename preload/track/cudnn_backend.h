// cuDNN's numbers of attributes in the backend API: cudnnBackendAttributeType_t and cudnnBackendAttributeName_t of
// cuDNN 8 and 9 (cudnn_graph.h).
#pragma once

namespace dlhook::inline track {

enum {
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeKnob = 9,
  kTypeNumericalNote = 11,
  kTypeDescriptor = 15,
  kTypeBehaviorNote = 19
};
enum {
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigurationEngine = 300,
  kConfigurationKnobs = 302,
  kPlanConfiguration = 401,
  kPlanWorkspace = 402,
  kPlanJson = 405,
  kKnobType = 600,
  kKnobValue = 601,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineNumericalNote = 1303,
  kEngineBehaviorNote = 1305
};

}  // namespace dlhook::inline track
