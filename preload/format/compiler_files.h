// Which functions of PyTorch run while torch.compile compiles, and not in compiled code.
#pragma once

#include <string.h>

namespace dlhook::inline format {

// By a function's file. A stack may be recorded without its outer end: any of these files is enough.
inline bool IsCompilersFile(const char* file) {
  constexpr const char* kFiles[] = {
      "_dynamo/convert_frame.py", "_dynamo/symbolic_convert.py",  "_dynamo/output_graph.py",      "_dynamo/variables/",
      "_inductor/graph.py",       "_inductor/scheduler.py",       "_inductor/lowering.py",        "_inductor/codegen/",
      "_inductor/fx_passes/",     "_inductor/pattern_matcher.py", "fx/passes/fake_tensor_prop.py"};
  constexpr char kTorch[] = "/torch/";
  for (file = strstr(file, kTorch); file != nullptr; file = strstr(file, kTorch)) {
    file += sizeof kTorch - 1;
    for (const char* part : kFiles) {
      if (strncmp(file, part, strlen(part)) == 0) return true;
    }
  }
  return false;
}

}  // namespace dlhook::inline format
