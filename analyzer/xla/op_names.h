// What XLA's op_name says: the user's scopes, the transformations of JAX around them, and the primitive.
//   jit(train_step)/transpose(jvp(CNN))/Conv_0/conv_general_dilated -> backward of CNN/Conv_0, conv_general_dilated
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline xla {

enum class XlaPass : uint8_t { kOther, kForward, kBackward, kRecompute, kUpdate };

struct XlaOpName {
  std::string path;       // "CNN/Conv_0"; empty: no scopes
  std::string primitive;  // "conv_general_dilated"; empty: none
  XlaPass pass = XlaPass::kOther;
};

XlaOpName ReadOpName(absl::string_view op_name);

}  // namespace dlhook::analyzer::xla
