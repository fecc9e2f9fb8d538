// Messages that pass the check must be accepted by libprotobuf: every byte of a plan changed to every value, every
// prefix.
#include <gtest/gtest.h>

#include <string>

#include "preload/drain/describe.h"
#include "proto/op.pb.h"

namespace dlhook {
namespace {

std::string ExamplePlan() {
  trace::Cudnn cudnn;
  cudnn.set_operation("convolution_forward");
  trace::CudnnTensor* tensor = cudnn.add_tensor();
  tensor->set_type(trace::F32);
  for (int64_t dim : {8, -1, 300}) tensor->add_dim(dim), tensor->add_stride(dim * 1000);
  for (int64_t pad : {1, -2})
    cudnn.add_pad(pad), cudnn.add_post_pad(pad), cudnn.add_stride(pad), cudnn.add_dilation(pad);
  cudnn.set_workspace_bytes(uint64_t{1} << 40);
  trace::CudnnPlan* plan = cudnn.mutable_plan();
  trace::CudnnNode* node = plan->add_node();
  node->set_operation("pointwise"), node->set_mode("relu: \xc3\xa4");
  for (int64_t uid : {1, 200})
    node->add_input_uid(uid), node->add_output_uid(uid), node->add_pad(uid), node->add_dilation(uid);
  plan->add_knob()->set_value(-3);
  for (int note : {0, 5}) plan->add_numerical_note(note), plan->add_behavior_note(note);
  plan->set_json("{}");
  return cudnn.SerializeAsString();
}

bool Accepts(const std::string& bytes) { return IsCudnnMessage(bytes.data(), bytes.size()); }

TEST(MessageCheckTest, TakesWhatLibprotobufWrites) {
  EXPECT_TRUE(Accepts(ExamplePlan()));
  EXPECT_TRUE(Accepts(""));
}

TEST(MessageCheckTest, WhatItTakesCanBeParsed) {
  const std::string plan = ExamplePlan();
  trace::Cudnn parsed;
  int refused = 0;
  for (size_t at = 0; at < plan.size(); ++at) {
    const std::string prefix = plan.substr(0, at);
    EXPECT_TRUE(!Accepts(prefix) || parsed.ParseFromString(prefix)) << "prefix of " << at << " bytes";
    for (int value = 0; value < 256; ++value) {
      std::string changed = plan;
      changed[at] = static_cast<char>(value);
      const bool accepted = Accepts(changed);
      refused += !accepted;
      EXPECT_TRUE(!accepted || parsed.ParseFromString(changed)) << "byte " << at << " changed to " << value;
    }
  }
  EXPECT_GT(refused, 0);
}

// Numbers and lengths encoded with more bytes than a parser reads.
TEST(MessageCheckTest, OverlongTagsAndLengths) {
  EXPECT_TRUE(Accepts(std::string("\x0a\x80\x80\x80\x80\x00", 6)));
  EXPECT_FALSE(Accepts(std::string("\x0a\x80\x80\x80\x80\x80\x00", 7)));
  EXPECT_FALSE(Accepts(std::string("\x8a\x80\x80\x80\x80\x00\x00", 7)));
  EXPECT_TRUE(Accepts(std::string("\x38\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11)));
  EXPECT_FALSE(Accepts(std::string("\x38\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12)));
}

}  // namespace
}  // namespace dlhook
