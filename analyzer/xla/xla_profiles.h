// XLA's own account of its programs in a trace (trace::CompilerProfile): what ran when, and which of the user's layers it
// computed. Decoded here, so that libprotobuf's messages stay inside; damaged bytes give nothing, and say so.
#pragma once

#include "analyzer/model/compiled_op.h"

namespace dlhook::xla {
class HloInstruction;
class Shape;
}  // namespace dlhook::xla

namespace dlhook::analyzer::inline xla {

// What XLA's op_name says: the user's scopes, the transformations of JAX around them, and the primitive.
//   jit(train_step)/transpose(jvp(CNN))/Conv_0/conv_general_dilated -> backward of CNN/Conv_0, conv_general_dilated
struct XlaOpName {
  std::string path;       // "CNN/Conv_0"; empty: no scopes
  std::string primitive;  // "conv_general_dilated"; empty: none
  CompiledPass pass = CompiledPass::kOther;
};

XlaOpName ReadOpName(absl::string_view op_name);

// What a product computes, in the words of oneDNN's log.
struct XlaProduct {
  std::string primitive;  // "matmul", "convolution", "deconvolution"; empty: it is no product
  std::string direction;  // "backward_data": a convolution that XLA runs as one over an input with zeros in between
  std::string problem;    // "504x128:128x1000"
  std::string tensors;    // "src:f32::blocked:ab::f0 wei:…"
  std::string library;    // that computes it, where the program says so: "YNNPACK"
  // More than 1: of several, which one fusion computes, nothing else is known. Their times are not told apart.
  int64_t of_one_fusion = 1;
};

// One operation (HLO instruction) of a program.
struct XlaOp : CompiledOp {
  int64_t program_id = 0;
  std::string argument;            // of the program: "x f32[24,40]"; empty: it is none
  std::vector<std::string> users;  // instructions that read its result
  XlaProduct product;
};

// A program that was compiled. One function has several if it was compiled again.
struct XlaProgram {
  std::string name;                    // "jit_train_step"
  std::vector<std::string> arguments;  // XlaOp.argument
  int64_t id = 0;                      // ascends as XLA compiles
};

struct XlaEvent {
  int64_t thread = 0;    // XLA's id: the hash of its pthread_t
  int64_t start_ns = 0;  // CLOCK_REALTIME
  int64_t end_ns = 0;
  uint32_t op = 0;
  uint32_t run = 0;              // of the program; consecutive runs differ
  uint32_t device = 0;           // several take part in a run of pmap's
  uint32_t window = 0;           // which XSpace tells of it
  bool is_continuation = false;  // its call had returned
  int64_t helps_from_ns = 0;     // of a continuation: its thread may have worked for the call from then on
};

struct XlaThread {
  int64_t id = 0;
  std::string name;
};

class XlaProfiles {
 public:
  // Bytes of an HloModuleProto, of an XSpace; false: they are damaged.
  bool AddProgram(const std::string& bytes);
  bool AddSpace(const std::string& bytes);

  // Call after the last one.
  void Finish();

  const std::vector<XlaProgram>& programs() const { return programs_; }  // in the order of their compilation
  const std::vector<XlaOp>& ops() const { return ops_; }
  const std::vector<XlaEvent>& events() const { return events_; }  // those of a thread ascend by end
  const std::vector<XlaThread>& threads() const { return threads_; }

  // What the program says of an instruction, also if it did not run in a window; null: nothing.
  const XlaOp* Find(const std::string& program, int64_t program_id, const std::string& instruction) const {
    return ProgramOpOf({program, program_id, instruction});
  }

  // The id of the thread with this pthread_t.
  static int64_t ThreadId(uint64_t handle);

 private:
  friend class SpaceReader;

  // An operation as an event names it.
  struct Reference {
    std::string program;
    int64_t program_id = 0;
    std::string instruction;
  };

  uint32_t FindReference(Reference reference);
  const XlaOp* ProgramOpOf(const Reference& reference) const;
  std::vector<uint32_t> UsersOf(const Reference& reference) const;
  void EndBeforeUsers();
  void FillGaps();

  std::vector<XlaProgram> programs_;
  std::vector<XlaOp> program_ops_;
  absl::flat_hash_map<std::string, size_t> program_op_by_key_;  // with the program's id, and without
  std::vector<Reference> references_;
  absl::flat_hash_map<std::string, uint32_t> reference_by_key_;
  std::vector<XlaOp> ops_;  // by reference
  uint32_t spaces_ = 0;
  std::vector<XlaEvent> events_;
  std::vector<XlaThread> threads_;
};

// Ops of a program in order of their places; the entry computation's and all others'. In hlo_layers.cc.
std::vector<XlaOp> OpsOfProgram(const std::string& bytes, std::string* name, int64_t* id, bool* is_whole);

// What dots and convolutions of an HLO module compute: sizes, types, memory formats. Pure functions.

// Sums over any dimensions of the operands, as a batch of matrix products: "8x63x32:8x32x63".
XlaProduct ProductOfDot(const dlhook::xla::HloInstruction& dot, const dlhook::xla::Shape& left,
                        const dlhook::xla::Shape& right);

// XLA's convolution as it stands, which in a backward pass has other sizes than the program's own. Two kinds have numbers
// of their own:
// - Zeros between the elements of the input (base dilation) are no work: this is the gradient of a strided convolution's
//   input, or a transposed convolution.
// - Groups of images (batch_group_count; the gradient of a grouped convolution's weights) are groups of channels.
XlaProduct ProductOfConvolution(const dlhook::xla::HloInstruction& convolution, const dlhook::xla::Shape& left,
                                const dlhook::xla::Shape& right, CompiledPass pass);

}  // namespace dlhook::analyzer::xla
