// The hand-written encoder against libprotobuf: lengths of every size, nesting, defaults.
#include "preload/format/packet_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "proto/trace.pb.h"

namespace dlhook {
namespace {

std::string Text(const Buffer& buffer) { return {buffer.data(), buffer.size()}; }

TEST(PacketWriterTest, NestedLengthsAreMinimalWhateverTheirSize) {
  for (size_t size : {0, 1, 50, 100, 118, 120, 122, 124, 126, 127, 128, 130, 16000, 16370, 16380, 16384, 70000}) {
    const std::string detail(size, 'd');
    trace::Trace expected;
    trace::Loss* loss = expected.add_packet()->mutable_loss();
    loss->set_reason(trace::Loss::RING_FULL);
    loss->set_calls(1234567890123);
    loss->set_detail(detail);
    Buffer buffer;
    PacketWriter writer(&buffer);
    const size_t packet = writer.Begin(1);
    const size_t message = writer.Begin(12);
    writer.UInt(1, 1);
    writer.UInt(3, 1234567890123);
    writer.Text(5, detail.c_str());
    writer.End(message);
    writer.End(packet);
    EXPECT_EQ(Text(buffer), expected.SerializeAsString()) << size;
  }
}

TEST(PacketWriterTest, ZeroScalarsAreLeftOutAndNegativesTakeTenBytes) {
  trace::Gemm expected;
  expected.set_m(-1);
  expected.set_n(0);
  expected.set_k(INT64_MIN);
  expected.set_trans_a("T");
  Buffer buffer;
  PacketWriter writer(&buffer);
  writer.Text(5, 'T');
  writer.Text(6, '\0');
  writer.Int(7, -1);
  writer.Int(8, 0);
  writer.Int(9, INT64_MIN);
  EXPECT_EQ(Text(buffer), expected.SerializeAsString());
}

TEST(PacketWriterTest, PackedColumnsAndZigZag) {
  trace::CallBatch expected;
  Buffer sequence, ends;
  for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{INT32_MIN}, int64_t{INT32_MAX}}) {
    expected.add_sequence_delta(static_cast<int32_t>(value));
    sequence.AppendVarint(ZigZag(value) & 0xffffffff);
  }
  for (int64_t value : {int64_t{0}, INT64_MIN, INT64_MAX, int64_t{-3}}) {
    expected.add_end_delta_ticks(value);
    ends.AppendVarint(ZigZag(value));
  }
  Buffer buffer;
  PacketWriter writer(&buffer);
  writer.Packed(5, sequence);
  writer.Packed(6, ends);
  EXPECT_EQ(Text(buffer), expected.SerializeAsString());
}

TEST(PacketWriterTest, TextBecomesValidUtf8) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"train.py", "train.py"},
                                                                  {"gr\xc3\xb6\xc3\x9f\x65", "gr\xc3\xb6\xc3\x9f\x65"},
                                                                  {"\xff\xfe", "??"},
                                                                  {"a\xc3", "a?"},
                                                                  {"\xe0\x80\x80", "???"},
                                                                  {"\xed\xa0\x80", "???"},
                                                                  {"\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5"},
                                                                  {"\xf4\x90\x80\x80", "????"}};
  for (const auto& [text, expected] : cases) {
    Buffer buffer;
    PacketWriter writer(&buffer);
    writer.Text(3, text.data(), text.size());
    trace::ThreadInfo thread;
    ASSERT_TRUE(thread.ParseFromString(Text(buffer))) << text;
    EXPECT_EQ(thread.name(), expected);
  }
}

TEST(PacketWriterTest, WithoutMemoryNothingElseIsTouchedAndTheBufferSaysSo) {
  const std::string text(64 << 20, '\xff');
  Buffer buffer;
  PacketWriter writer(&buffer);
  const size_t mark = writer.Begin(1);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit nothing = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &nothing), 0);
  writer.Text(2, text.data(), text.size());
  writer.End(mark);
  setrlimit(RLIMIT_AS, &before);
  EXPECT_TRUE(buffer.has_failed());
  EXPECT_LT(buffer.size(), 100u);
  buffer.Clear();
  EXPECT_FALSE(buffer.has_failed());
}

TEST(PacketWriterTest, EmptyMessagesAreWritten) {
  trace::Trace expected;
  expected.add_packet()->mutable_reset();
  Buffer buffer;
  PacketWriter writer(&buffer);
  const size_t packet = writer.Begin(1);
  writer.End(writer.Begin(13));
  writer.End(packet);
  EXPECT_EQ(Text(buffer), expected.SerializeAsString());
}

}  // namespace
}  // namespace dlhook
