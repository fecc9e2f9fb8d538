// Calls with arguments in descriptors: the legacy interface of cuDNN and cuBLASLt. Without a device there is no handle,
// so each call fails; one line of JSON per call shows its arguments.
#pragma once

#include <cstdio>

namespace genuine {

void CallLegacy(void* library, std::FILE* out);
void CallLt(void* library, std::FILE* out);

}  // namespace genuine
