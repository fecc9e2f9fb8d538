// Names of NVTX ranges, and the binary interface compared with NVTX's own header if available.
#include "preload/tap/nvtx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "preload/abi/nvtx_abi.h"

#ifdef DLHOOK_HAS_NVTX_HEADERS
#include <nvtx3/nvToolsExt.h>
#endif

namespace dlhook {
namespace {

template <typename Message>
std::string Composed(const char* domain, Message message) {
  NvtxName name;
  ComposeNvtxName(domain, message, &name);
  return std::string(name.text, name.bytes) + (name.link < 0 ? "" : " <" + std::to_string(name.link) + ">");
}

TEST(NvtxNameTest, DomainAndMessage) {
  EXPECT_EQ(Composed(nullptr, "step"), "step");
  EXPECT_EQ(Composed("NCCL", "ncclAllReduce"), "NCCL: ncclAllReduce");
  EXPECT_EQ(Composed("", "step"), "step");
  EXPECT_EQ(Composed("NCCL", static_cast<const char*>(nullptr)), "NCCL: ");
  EXPECT_EQ(Composed(nullptr, static_cast<const wchar_t*>(nullptr)), "");
}

TEST(NvtxNameTest, EmitNvtxsNumbersAreNoPartOfIt) {
  EXPECT_EQ(Composed(nullptr, "aten::conv2d, seq = 17, op_id = 4"), "aten::conv2d <17>");
  EXPECT_EQ(Composed(nullptr, "aten::relu, op_id = 4, sizes = [[2, 3]]"), "aten::relu");
  EXPECT_EQ(Composed(nullptr, "a, seq = 17"), "a, seq = 17");  // not emit_nvtx's
}

TEST(NvtxNameTest, WideTextIsUtf8) {
  EXPECT_EQ(Composed("d", L"größe \x1F600"),
            "d: gr\xc3\xb6\xc3\x9f"
            "e \xf0\x9f\x98\x80");
  EXPECT_EQ(Composed(nullptr, L"\x20AC"), "\xe2\x82\xac");
  EXPECT_EQ(Composed(nullptr, L"\xD800"), "\xef\xbf\xbd");
  for (const char* domain : {"d", "dd"}) {  // one of them leaves room for half a character
    EXPECT_THAT(Composed(domain, std::wstring(5000, L'ö').c_str()), testing::EndsWith("\xc3\xb6"));
  }
  char four[4];
  EXPECT_EQ(Utf8FromWide(L"aaö", four, sizeof four), 2u);  // no truncated characters
  EXPECT_STREQ(four, "aa");
}

TEST(NvtxNameTest, LongNamesKeepAMarkOfTheirLength) {
  EXPECT_GT(Composed(nullptr, std::string(5000, 'x').c_str()).size(), kMaxScopeNameBytes);
  EXPECT_GT(Composed(std::string(5000, 'd').c_str(), std::wstring(5000, L'x').c_str()).size(), kMaxScopeNameBytes);
  EXPECT_EQ(Composed(nullptr, std::string(kMaxScopeNameBytes, 'x').c_str()).size(), kMaxScopeNameBytes);
}

#ifdef DLHOOK_HAS_NVTX_HEADERS
TEST(NvtxAbiTest, IsThatOfTheHeader) {
  EXPECT_EQ(kNvtxCallbacksTable, uint32_t{NVTX_ETID_CALLBACKS});
  EXPECT_EQ(int{kNvtxCore}, int{NVTX_CB_MODULE_CORE});
  EXPECT_EQ(int{kNvtxCore2}, int{NVTX_CB_MODULE_CORE2});
  EXPECT_EQ(unsigned{kNvtxRangeStartEx}, unsigned{NVTX_CBID_CORE_RangeStartEx});
  EXPECT_EQ(unsigned{kNvtxRangeStartA}, unsigned{NVTX_CBID_CORE_RangeStartA});
  EXPECT_EQ(unsigned{kNvtxRangeStartW}, unsigned{NVTX_CBID_CORE_RangeStartW});
  EXPECT_EQ(unsigned{kNvtxRangeEnd}, unsigned{NVTX_CBID_CORE_RangeEnd});
  EXPECT_EQ(unsigned{kNvtxRangePushEx}, unsigned{NVTX_CBID_CORE_RangePushEx});
  EXPECT_EQ(unsigned{kNvtxRangePushA}, unsigned{NVTX_CBID_CORE_RangePushA});
  EXPECT_EQ(unsigned{kNvtxRangePushW}, unsigned{NVTX_CBID_CORE_RangePushW});
  EXPECT_EQ(unsigned{kNvtxRangePop}, unsigned{NVTX_CBID_CORE_RangePop});
  EXPECT_EQ(unsigned{kNvtxDomainRangeStartEx}, unsigned{NVTX_CBID_CORE2_DomainRangeStartEx});
  EXPECT_EQ(unsigned{kNvtxDomainRangeEnd}, unsigned{NVTX_CBID_CORE2_DomainRangeEnd});
  EXPECT_EQ(unsigned{kNvtxDomainRangePushEx}, unsigned{NVTX_CBID_CORE2_DomainRangePushEx});
  EXPECT_EQ(unsigned{kNvtxDomainRangePop}, unsigned{NVTX_CBID_CORE2_DomainRangePop});
  EXPECT_EQ(unsigned{kNvtxDomainRegisterStringA}, unsigned{NVTX_CBID_CORE2_DomainRegisterStringA});
  EXPECT_EQ(unsigned{kNvtxDomainRegisterStringW}, unsigned{NVTX_CBID_CORE2_DomainRegisterStringW});
  EXPECT_EQ(unsigned{kNvtxDomainCreateA}, unsigned{NVTX_CBID_CORE2_DomainCreateA});
  EXPECT_EQ(unsigned{kNvtxDomainCreateW}, unsigned{NVTX_CBID_CORE2_DomainCreateW});
  EXPECT_EQ(kNvtxNoDepth, NVTX_NO_PUSH_POP_TRACKING);
}

TEST(NvtxAbiTest, StructuresAreThoseOfTheHeader) {
  EXPECT_EQ(sizeof(NvtxEventAttributes), sizeof(nvtxEventAttributes_t));
  EXPECT_EQ(offsetof(NvtxEventAttributes, message_type), offsetof(nvtxEventAttributes_t, messageType));
  EXPECT_EQ(offsetof(NvtxEventAttributes, message), offsetof(nvtxEventAttributes_t, message));
  EXPECT_EQ(int(NvtxMessageType::kAscii), int{NVTX_MESSAGE_TYPE_ASCII});
  EXPECT_EQ(int(NvtxMessageType::kUnicode), int{NVTX_MESSAGE_TYPE_UNICODE});
  EXPECT_EQ(int(NvtxMessageType::kRegistered), int{NVTX_MESSAGE_TYPE_REGISTERED});
  EXPECT_EQ(sizeof(NvtxCallbacksTable), sizeof(NvtxExportTableCallbacks));
}
#endif

}  // namespace
}  // namespace dlhook
