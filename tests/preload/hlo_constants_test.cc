// Values of the user's arrays are not in the trace, even where XLA made them a part of the program.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "preload/tap/jax_windows.h"

namespace dlhook {
namespace hlo_constants_test {

TEST(HloConstantsTest, ElementsByTheText) {
  EXPECT_EQ(ConstantElements(""), 0u);
  EXPECT_EQ(ConstantElements("  %x.1 = f32[4,2048]{1,0} parameter(0)\n"), 0u);
  EXPECT_EQ(ConstantElements("  %constant.1 = f32[2048,1024]{1,0} constant({...})\n"
                             "  %constant.2 = f32[] constant(0.01)\n  %c = s32[3]{0} constant({1, 2, 3})\n"),
            2048u * 1024 + 1 + 3);
  EXPECT_EQ(ConstantElements(" constant("), 1u);
}

std::string Field(int number, const std::string& bytes) {
  std::string field(1, static_cast<char>(number << 3 | 2));
  field += static_cast<char>(bytes.size());
  return field + bytes;
}

std::string Cleared(std::string bytes) {
  ClearConstants(bytes.data(), bytes.size());
  return bytes;
}

TEST(HloConstantsTest, ValuesAreCleared) {
  const std::string number("\x08\x2a", 2), fixed = std::string("\x25", 1) + "abcd";
  const auto module = [&](const std::string& values) {
    const std::string instruction = Field(1, "constant.1") + number + Field(8, values) + fixed + Field(9, "kept");
    return Field(1, "jit_step") + Field(8, "kept") + Field(3, Field(1, "main") + Field(2, instruction));
  };
  EXPECT_EQ(Cleared(module("secret")), module(std::string(6, '\0')));
}

TEST(HloConstantsTest, AnyBytes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % (round % 2 == 0 ? 256 : 32));
    Cleared(bytes);
  }
}

}  // namespace hlo_constants_test
}  // namespace dlhook
