// The meaning of the user's settings of oneDNN's log, and the tap's answers.
#include "preload/tap/onednn.h"

#include <gtest/gtest.h>

namespace dlhook {
namespace onednn_test {

std::string Answer(const char* users, int level) {
  char buffer[64];
  const char* answer = SettingToAnswer(users, level, buffer, sizeof buffer);
  return answer == nullptr ? "(null)" : answer;
}

TEST(OneDnnTapTest, AnswersOurLevelWhereTheUserWantsNothing) {
  EXPECT_EQ(Answer(nullptr, 1), "1");
  EXPECT_EQ(Answer(nullptr, 2), "2");
  EXPECT_EQ(Answer("0", 1), "1");
  EXPECT_EQ(Answer("none", 2), "2");
}

TEST(OneDnnTapTest, KeepsTheUsersValueWhereItSaysEnough) {
  EXPECT_EQ(Answer("1", 1), "1");
  EXPECT_EQ(Answer("2", 1), "2");
  EXPECT_EQ(Answer("2", 2), "2");
  EXPECT_EQ(Answer("all", 2), "all");
  EXPECT_EQ(Answer("profile_exec", 1), "profile_exec");
  EXPECT_EQ(Answer("1", 2), "1");  // a number can't be extended: no creations
}

TEST(OneDnnTapTest, AddsToWordsThatLackExecutions) {
  EXPECT_EQ(Answer("dispatch", 1), "dispatch,profile_exec");
  EXPECT_EQ(Answer("error,check", 2), "error,check,profile");
  EXPECT_EQ(Answer("profile_create", 1), "profile_create,profile_exec");
}

TEST(OneDnnTapTest, LinesOfSettings) {
  EXPECT_EQ(LinesOfSetting(nullptr), kNoLines);
  EXPECT_EQ(LinesOfSetting("0"), kNoLines);
  EXPECT_NE(LinesOfSetting("1") & kExecutionLines, 0u);
  EXPECT_EQ(LinesOfSetting("1") & kCreationLines, 0u);
  EXPECT_NE(LinesOfSetting("2") & kCreationLines, 0u);
  EXPECT_EQ(LinesOfSetting("dispatch") & (kExecutionLines | kCreationLines), 0u);
  EXPECT_NE(LinesOfSetting("dispatch") & kOtherLines, 0u);
}

TEST(OneDnnTapTest, KindsOfLines) {
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,a,b,,16,1"), kExecutionLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,1795272000.12,v1,primitive,exec,cpu,reorder"), kExecutionLines);
  EXPECT_EQ(KindOfLine("dnnl_verbose,exec,cpu,reorder,jit:uni"), kExecutionLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,primitive,create:cache_hit,cpu,reorder"), kCreationLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,info,cpu,runtime:OpenMP,nthr:2"), kInfoLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,primitive,info,template:operation,engine"), kInfoLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,1795276415973.029053,primitive,exec,cpu,reorder"), kExecutionLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,primitive,create:dispatch,matmul,cpu,unsupported"), kOtherLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,primitive,exec:check,memory,x"), kOtherLines);
  EXPECT_EQ(KindOfLine("dnnl_verbose,create,cpu,reorder,jit:uni"), kCreationLines);
  EXPECT_EQ(KindOfLine("onednn_verbose,v1,primitive,error,cpu,exec,x"), kOtherLines);
  EXPECT_EQ(KindOfLine("mkldnn_verbose,exec,reorder,jit:uni,undef,in:f32_nchw out:f32_nChw8c"), kExecutionLines);
  EXPECT_EQ(KindOfLine("mkldnn_verbose,create,reorder,jit:uni"), kCreationLines);
  EXPECT_EQ(KindOfLine("mkldnn_verbose,info,Intel MKL-DNN v1.0.4 (commit a0a87d6)"), kInfoLines);
}

TEST(OneDnnTapTest, KnownCarriers) {
  EXPECT_TRUE(IsKnownOneDnnCarrier("libtorch_cpu.so"));
  EXPECT_TRUE(IsKnownOneDnnCarrier("libtensorflow_cc.so.2"));
  EXPECT_TRUE(IsKnownOneDnnCarrier("libdnnl.so.3"));
  EXPECT_TRUE(IsKnownOneDnnCarrier("libmkldnn.so.0"));
  EXPECT_FALSE(IsKnownOneDnnCarrier("libopenvino_intel_cpu_plugin.so"));
  EXPECT_FALSE(IsKnownOneDnnCarrier(""));
}

}  // namespace onednn_test
}  // namespace dlhook
