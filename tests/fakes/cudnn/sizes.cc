// libcudnn, legacy half: sizes that callers allocate by.
#include "cudnn.h"

namespace {

constexpr int kSuccess = 0;

}  // namespace

FAKE(int, cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, void*, int, int, const void*, const void*,
     const void*, const void*, const void*, size_t* bytes) {
  *bytes = 1 << 16;
  return kSuccess;
}

FAKE(int, cudnnGetBatchNormalizationBackwardExWorkspaceSize, void*, int, int, const void*, const void*, const void*,
     const void*, const void*, const void*, const void*, size_t* bytes) {
  *bytes = 1 << 16;
  return kSuccess;
}

FAKE(int, cudnnGetBatchNormalizationTrainingExReserveSpaceSize, void*, int, int, const void*, const void*,
     size_t* bytes) {
  *bytes = 1 << 12;
  return kSuccess;
}

FAKE(int, cudnnDropoutGetStatesSize, void*, size_t* bytes) {
  *bytes = 1 << 16;
  return kSuccess;
}

FAKE(int, cudnnGetCTCLossWorkspaceSize, void*, const void*, const void*, const int*, const int*, const int*, int,
     const void*, size_t* bytes) {
  *bytes = 1 << 16;
  return kSuccess;
}

FAKE(int, cudnnGetCTCLossWorkspaceSize_v8, void*, int, const void*, const void*, const void*, size_t* bytes) {
  *bytes = 1 << 16;
  return kSuccess;
}
