// The innermost frame of a call's stack: the function and the problem.
#ifndef DLHOOK_ANALYZER_PROFILE_CALL_LABEL_H_
#define DLHOOK_ANALYZER_PROFILE_CALL_LABEL_H_

#include <string>

#include "analyzer/model/op.h"

namespace dlhook::analyzer::inline profiles {

// "sgemm_ m64 n64 k128 NT f32", "onednn convolution forward jit:avx2 mb64_ic3oc6_…", "cudaLaunchKernel
// ampere_sgemm_128x64_nn".
std::string CallLabel(const Op& op);

}  // namespace dlhook::analyzer::profiles

#endif  // DLHOOK_ANALYZER_PROFILE_CALL_LABEL_H_
