// Rules from call frame information written by hand, byte by byte according to the DWARF standard.
#include "preload/unwind/unwind_rules.h"

#include <gmock/gmock.h>

#include <cstring>
#include <vector>

namespace dlhook {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr uint64_t kStart = 0x10000;
constexpr uint64_t kLength = 0x1000;

void Append(Bytes* bytes, const void* data, size_t size) {
  auto from = static_cast<const uint8_t*>(data);
  bytes->insert(bytes->end(), from, from + size);
}

// An entry preceded by its length, padded to 8 bytes.
Bytes Entry(uint32_t id, const Bytes& body) {
  Bytes entry(4);
  Append(&entry, &id, 4);
  Append(&entry, body.data(), body.size());
  while (entry.size() % 8 != 4) entry.push_back(0);
  const auto length = static_cast<uint32_t>(entry.size() - 4);
  std::memcpy(entry.data(), &length, 4);
  return entry;
}

// A section with one CIE ("zR", or "zRS", absolute addresses, CFA rsp+8, return address at CFA-8) and one FDE.
struct Section {
  explicit Section(const Bytes& program, bool is_signal_frame = false) {
    Bytes cie = {1, 'z', 'R'};
    if (is_signal_frame) cie.push_back('S');
    for (uint8_t byte : {0, 1, 0x78, 16, 1, 0, 0x0c, 7, 8, 0x90, 1}) cie.push_back(byte);
    bytes = Entry(0, cie);
    fde = bytes.size();
    Bytes body;
    Append(&body, &kStart, 8);
    Append(&body, &kLength, 8);
    body.push_back(0);
    Append(&body, program.data(), program.size());
    const Bytes entry = Entry(static_cast<uint32_t>(fde + 4), body);
    Append(&bytes, entry.data(), entry.size());
  }
  UnwindRule At(uint64_t offset) const { return ReadRule(bytes.data() + fde, kStart + offset, kStart + offset); }
  Bytes bytes;
  size_t fde;
};

void ExpectRule(const UnwindRule& rule, FrameBase cfa_from, int cfa_offset, FrameBase bp_from, int bp_offset,
                int return_offset = -8) {
  EXPECT_EQ(rule.cfa_from, cfa_from);
  EXPECT_EQ(rule.cfa_offset, cfa_offset);
  EXPECT_EQ(rule.bp_from, bp_from);
  EXPECT_EQ(rule.bp_offset, bp_offset);
  EXPECT_EQ(rule.return_offset, return_offset);
}

TEST(UnwindRules, FunctionWithFramePointer) {
  // push %rbp; mov %rsp,%rbp; …; leave; ret
  const Section section({0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x50, 0x0c, 7, 8});
  ExpectRule(section.At(0), FrameBase::kSp, 8, FrameBase::kNone, 0);
  ExpectRule(section.At(1), FrameBase::kSp, 16, FrameBase::kCfa, -16);
  ExpectRule(section.At(4), FrameBase::kBp, 16, FrameBase::kCfa, -16);
  ExpectRule(section.At(0x53), FrameBase::kBp, 16, FrameBase::kCfa, -16);
  ExpectRule(section.At(0x54), FrameBase::kSp, 8, FrameBase::kCfa, -16);
}

TEST(UnwindRules, RememberedStateComesBackWithItsCfa) {
  const Section section({0x41, 0x0e, 32, 0x86, 2, 0x0a, 0x41, 0x0e, 8, 0xc6, 0x41, 0x0b});
  ExpectRule(section.At(1), FrameBase::kSp, 32, FrameBase::kCfa, -16);
  ExpectRule(section.At(2), FrameBase::kSp, 8, FrameBase::kNone, 0);
  ExpectRule(section.At(3), FrameBase::kSp, 32, FrameBase::kCfa, -16);
}

TEST(UnwindRules, LinkageTableDependsOnTheInstruction) {
  // DW_CFA_def_cfa_expression: breg7 8, breg16 0, lit15, and, lit11, ge, lit3, shl, plus
  const Section section({0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22});
  ExpectRule(section.At(0x1a), FrameBase::kSp, 8, FrameBase::kNone, 0);
  ExpectRule(section.At(0x1b), FrameBase::kSp, 16, FrameBase::kNone, 0);
}

TEST(UnwindRules, FunctionThatAlignsItsStack) {
  // The CFA is stored at rbp-8, the saved rbp at rbp.
  const Section section({0x0f, 3, 0x76, 0x78, 0x06, 0x10, 6, 2, 0x76, 0});
  ExpectRule(section.At(0), FrameBase::kAtBp, -8, FrameBase::kBp, 0);
}

TEST(UnwindRules, SignalTrampoline) {
  // As in glibc's __restore_rt: CFA = *(rsp+160), rip at rsp+168, rbp at rsp+120, rsp at rsp+160.
  const Section section(
      {0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1, 0x10, 6, 3, 0x77, 0xf8, 0, 0x10, 7, 3, 0x77, 0xa0, 1},
      true);
  const UnwindRule rule = section.At(0);
  ExpectRule(rule, FrameBase::kAtSp, 160, FrameBase::kSp, 120, 168);
  EXPECT_EQ(rule.return_from, ReturnFrom::kAtSp);
  EXPECT_TRUE(rule.is_signal_frame);
}

TEST(UnwindRules, OutermostFunction) { EXPECT_EQ(Section({0x07, 16}).At(0).return_from, ReturnFrom::kOutermost); }

TEST(UnwindRules, WhatNeedsMoreIsRefused) {
  const Bytes programs[] = {
      {0x0c, 10, 0},                      // CFA from r10
      {0x09, 16, 1},                      // return address in a register
      {0x0f, 3, 0x77, 8, 0xf0},           // an unknown operation
      {0x0f, 5, 0x77, 8, 0x06, 0x23, 8},  // a word and a number
      {0x0f, 100, 0x77},                  // longer than the entry
      {0x1d},                             // an unknown instruction
      {0x0b},                             // nothing was remembered
  };
  for (const Bytes& program : programs) {
    EXPECT_EQ(Section(program).At(0).return_from, ReturnFrom::kNowhere) << testing::PrintToString(program);
  }
  EXPECT_EQ(Section({}).At(kLength).return_from, ReturnFrom::kNowhere);
}

TEST(UnwindRules, Epilogues) {
  UnwindRule rule;
  const Bytes plain = {0x48, 0x83, 0xc4, 0x08, 0xc3};
  ASSERT_TRUE(RuleOfEpilogue(plain.data(), plain.size(), &rule));
  ExpectRule(rule, FrameBase::kSp, 16, FrameBase::kNone, 0);
  const Bytes pop = {0x5d, 0xc3};
  ASSERT_TRUE(RuleOfEpilogue(pop.data(), pop.size(), &rule));
  ExpectRule(rule, FrameBase::kSp, 16, FrameBase::kCfa, -16);
  const Bytes other = {0x31, 0xc0, 0xc3};
  EXPECT_FALSE(RuleOfEpilogue(other.data(), other.size(), &rule));
  EXPECT_FALSE(RuleOfEpilogue(plain.data(), 4, &rule));
}

TEST(UnwindRules, CallsBeforeAReturnAddress) {
  const Bytes calls[] = {{0xe8, 1, 2, 3, 4},
                         {0xff, 0xd0},
                         {0x41, 0xff, 0xd3},
                         {0xff, 0x55, 0x08},
                         {0xff, 0x15, 1, 2, 3, 4},
                         {0xff, 0x54, 0x24, 0x08},
                         {0xff, 0x94, 0xc4, 1, 2, 3, 4},
                         {0xff, 0x14, 0x25, 1, 2, 3, 4}};
  for (const Bytes& call : calls) {
    Bytes code(7 - call.size(), 0x90);
    Append(&code, call.data(), call.size());
    EXPECT_TRUE(EndsWithCall(code.data(), code.size())) << testing::PrintToString(call);
  }
  const Bytes jump = {0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0};
  EXPECT_FALSE(EndsWithCall(jump.data(), jump.size()));
}

}  // namespace
}  // namespace dlhook
