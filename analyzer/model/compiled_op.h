// An operation of a program that XLA compiled.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline model {

enum class CompiledPass : uint8_t { kOther, kForward, kBackward, kRecompute, kUpdate };

// The links of scopes of kind kXlaOp refer to them.
struct CompiledOp {
  std::string program;      // "jit_train_step"
  std::string instruction;  // "ynn_fusion.12"
  std::string opcode;       // "fusion"; empty: its program is not in the trace
  std::string primitive;    // what it computes, as JAX calls it: "conv_general_dilated"; else the opcode
  std::string layer;        // the user's scopes "CNN/Conv_0", else calls "net:13>conv_block:5"; empty: not known
  std::string line;         // "mlp_conv.py:5"
  bool has_scopes = false;  // `layer` is made of scopes
  CompiledPass pass = CompiledPass::kOther;
};

}  // namespace dlhook::analyzer::model
