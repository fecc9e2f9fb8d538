// Native stacks through the drain: a reader decodes the session's tree by proto/trace.proto's rules, in libprotobuf's
// bytes, each frame once, even after the dictionaries were reset, another drain took over, and from hostile trees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "preload/drain/drain.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {
namespace drain_stacks_test {

using ::testing::ElementsAre;
using ::testing::EndsWith;

constexpr uint64_t kRingBytes = 65536;
constexpr char kLine[] = "onednn_verbose,exec,cpu,reorder,simple:any,undef,src_f32 dst_f32,,,1x1,0.5";

// The stack of each call, innermost first: "10<20<30", "-" for none, a cut or a signal as a word after the frame.
struct Reader {
  std::map<uint32_t, uint64_t> addresses;
  std::map<uint32_t, std::string> stacks;
  std::vector<std::string> call_stacks;
  int resets = 0;
  size_t definitions = 0;
  size_t longest = 0;  // frames
  std::map<uint32_t, size_t> depths;

  explicit Reader(const trace::Trace& trace) {
    for (const trace::Packet& packet : trace.packet()) {
      if (packet.has_reset()) {
        ++resets;
        addresses.clear();
        stacks.clear();
        depths.clear();
      }
      Add(packet.interned());
      for (uint32_t iid : packet.call_batch().stack_iid()) call_stacks.push_back(iid == 0 ? "-" : stacks.at(iid));
    }
  }

  void Add(const trace::Interned& interned) {
    for (int i = 0; i < interned.address_size(); ++i) {
      addresses[interned.first_address_iid() + static_cast<uint32_t>(i)] = interned.address(i);
    }
    for (const trace::InternedStack& stack : interned.stack()) {
      EXPECT_EQ(stacks.count(stack.iid()), 0u) << "defined twice";
      const uint32_t parent = stack.parent_iid();
      depths[stack.iid()] = 1 + (parent == 0 ? 0 : depths.at(parent));
      longest = std::max(longest, depths[stack.iid()]);
      std::string text = std::to_string(addresses.at(stack.address_iid()));
      if (stack.is_signal_frame()) text += " signal";
      if (stack.cut() != trace::InternedStack::WHOLE) text += " " + trace::InternedStack::Cut_Name(stack.cut());
      const bool is_short = depths[stack.iid()] < 100;  // texts of deeper ones would take all memory
      stacks[stack.iid()] = parent == 0 ? text : is_short ? text + "<" + stacks.at(parent) : text + "<…";
      ++definitions;
    }
  }
};

StackNode Node(uint64_t address, uint32_t parent, StackCut cut = StackCut::kWhole) {
  return {address, parent, cut, 0, {}};
}

TEST(DrainStacksTest, StacksComeOutAsTheyWentIn) {
  TestSession session(kRingBytes, 2, TestSession::kStackRoom);
  const uint32_t main = session.PutStackNode(Node(10, 0));
  const uint32_t forward = session.PutStackNode(Node(20, main));
  const uint32_t cut = session.PutStackNode(Node(90, 0, StackCut::kNoUnwindInfo));
  const uint32_t linear = session.PutStackNode(Node(30, forward));
  const uint32_t handler = session.PutStackNode({40, cut, StackCut::kWhole, 1, {}});
  RingProducer first = session.Producer(0), second = session.Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "other");
  PutGemm(&first, {.sequence = 1});
  PutGemm(&first, {.sequence = 2, .native_stack = linear});
  PutTapLine(&first, 3, 2100, kLine, forward);
  PutGemm(&first, {.sequence = 4, .native_stack = linear});
  PutGemm(&second, {.sequence = 1, .native_stack = handler});
  const std::string bytes = DrainAll(&session);
  const trace::Trace trace = ParseTrace(bytes);
  EXPECT_EQ(trace.ByteSizeLong(), bytes.size()) << "as short as libprotobuf writes it";
  const Reader reader(trace);
  EXPECT_THAT(reader.call_stacks, ElementsAre("-", "30<20<10", "20<10", "30<20<10", "40 signal<90 NO_UNWIND_INFO"));
  EXPECT_EQ(reader.definitions, 5u);
  // A trailer is not an operand.
  for (const DecodedCall& call : DecodeCalls(trace)) {
    if (call.function != "sgemm_") continue;
    EXPECT_THAT(call.addresses, ElementsAre(0x1000u, 0x1040u, 0x1080u));
  }
}

TEST(DrainStacksTest, BatchesWithoutStacksHaveNoColumn) {
  TestSession session(kRingBytes, 2, TestSession::kStackRoom);
  RingProducer first = session.Producer(0), second = session.Producer(1);
  PutThread(&first, 1, "main");
  PutThread(&second, 2, "other");
  PutGemm(&first, {.sequence = 1, .native_stack = session.PutStackNode(Node(10, 0))});
  PutGemm(&second, {.sequence = 1});
  PutGemm(&second, {.sequence = 2});
  EXPECT_THAT(Reader(ParseTrace(DrainAll(&session))).call_stacks, ElementsAre("10"));
}

// The dictionary of addresses is full long before the tree.
TEST(DrainStacksTest, ManyStacksStartTheDictionariesOver) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  MemorySink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  const uint32_t main = session.PutStackNode(Node(7, 0));
  const uint64_t stacks = 120000;
  for (uint64_t i = 0; i < stacks; ++i) {
    const uint32_t node = session.PutStackNode(Node(1000 + i, main));
    while (!PutGemm(&ring, {.sequence = i + 1, .native_stack = node})) drain.Step(true, false);
  }
  drain.Finish(ProcessEnd::kExited, false);
  const Reader reader(ParseTrace({sink.buffer().data(), sink.buffer().size()}));
  EXPECT_GE(reader.resets, 2);
  ASSERT_EQ(reader.call_stacks.size(), stacks);
  EXPECT_EQ(reader.call_stacks[60000], "61000<7");
  EXPECT_EQ(reader.call_stacks.back(), "120999<7");
}

TEST(DrainStacksTest, ADrainThatTakesOverDefinesThemAgain) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  const uint32_t main = session.PutStackNode(Node(10, 0));
  const uint32_t inner = session.PutStackNode(Node(20, main));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  PutGemm(&ring, {.sequence = 1, .native_stack = inner});
  MemorySink sink;
  {
    Drain drain;
    ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
    drain.Step(true, false);
  }
  PutGemm(&ring, {.sequence = 2, .native_stack = inner});
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  drain.Finish(ProcessEnd::kVanished, false);
  const Reader reader(ParseTrace({sink.buffer().data(), sink.buffer().size()}));
  EXPECT_EQ(reader.resets, 1);
  EXPECT_THAT(reader.call_stacks, ElementsAre("20<10", "20<10"));
}

class SmallSink final : public ByteSink {
 public:
  WriteResult Write(const char* data, size_t size, bool) override {
    if (!fails) bytes.append(data, size);
    return fails ? WriteResult::kFailed : WriteResult::kOk;
  }
  bool Truncate(uint64_t) override { return true; }
  bool fails = false;
  std::string bytes;
};

// Definitions in a packet that could not be written are written again.
TEST(DrainStacksTest, AFullOutputLosesNoLaterStack) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  const uint32_t main = session.PutStackNode(Node(10, 0));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  SmallSink sink;
  Drain drain;
  ASSERT_TRUE(drain.Open(session.header(), session.bytes(), &sink));
  drain.Step(true, false);
  sink.fails = true;
  PutGemm(&ring, {.sequence = 1, .native_stack = main});
  drain.Step(true, false);
  sink.fails = false;
  PutGemm(&ring, {.sequence = 2, .native_stack = main});
  drain.Finish(ProcessEnd::kExited, false);
  EXPECT_THAT(Reader(ParseTrace(sink.bytes)).call_stacks, ElementsAre("10"));
}

TEST(DrainStacksTest, BeyondTheLimitThereAreNone) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  session.header()->trace_bytes_limit = 1;
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  PutGemm(&ring, {.sequence = 1, .native_stack = session.PutStackNode(Node(10, 0))});
  const trace::Trace trace = ParseTrace(DrainAll(&session));
  EXPECT_EQ(Reader(trace).definitions, 0u);
  uint64_t calls = 0;
  for (const trace::Packet& packet : trace.packet()) calls += packet.call_aggregate().count();
  EXPECT_EQ(calls, 1u);
}

TEST(DrainStacksTest, ImpossibleStacksAreNone) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  const uint32_t good = session.PutStackNode(Node(10, 0));
  const uint32_t own_parent = session.PutStackNode(Node(20, 2));
  const uint32_t inside = session.PutStackNode(Node(30, own_parent));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  uint64_t sequence = 0;
  for (uint32_t node : {good, own_parent, inside, 4u, 4000000000u}) {
    PutGemm(&ring, {.sequence = ++sequence, .native_stack = node});
  }
  EXPECT_THAT(Reader(ParseTrace(DrainAll(&session))).call_stacks, ElementsAre("10", "-", "30 UNREADABLE", "-", "-"));
  session.header()->stack_nodes = kMaxStackNodes + 1;
  session.header()->slots[0].tail = 0;
  session.header()->checkpoints[session.header()->current_checkpoint & 1] = {};
  EXPECT_THAT(Reader(ParseTrace(DrainAll(&session))).call_stacks, ElementsAre());
}

TEST(DrainStacksTest, AnEndlessStackIsCut) {
  TestSession session(kRingBytes, 1, TestSession::kStackRoom);
  uint32_t node = 0;
  for (uint64_t i = 0; i < 5000; ++i) node = session.PutStackNode(Node(100 + i, node));
  RingProducer ring = session.Producer(0);
  PutThread(&ring, 1, "main");
  PutGemm(&ring, {.sequence = 1, .native_stack = node});
  const Reader reader(ParseTrace(DrainAll(&session)));
  EXPECT_EQ(reader.definitions, 1024u);
  EXPECT_EQ(reader.longest, 1024u);
  EXPECT_THAT(reader.stacks.begin()->second, EndsWith("TOO_DEEP"));
}

// Whatever the tree contains, the result is a trace that can be parsed (run it under ASan).
TEST(DrainStacksTest, SurvivesRandomTrees) {
  std::mt19937_64 random(20261122);
  TestSession session(16384, 1, TestSession::kStackRoom);
  for (int round = 0; round < 300; ++round) {
    session.header()->stack_nodes = 0;
    session.header()->checkpoints[session.header()->current_checkpoint & 1] = {};
    session.header()->slots[0].head = session.header()->slots[0].tail = 0;
    uint32_t node = 0;
    RingProducer ring = session.Producer(0);
    PutThread(&ring, 1, "main");
    for (uint64_t i = 0; i < 40; ++i) {
      node = session.PutStackNode(
          Node(random() % 8, static_cast<uint32_t>(random() % (i + 2)), static_cast<StackCut>(random() % 8)));
      if (i % 4 == 0) PutGemm(&ring, {.sequence = i + 1, .native_stack = node});
    }
    char* bytes = reinterpret_cast<char*>(session.header());
    for (int i = 0; i < 10; ++i) bytes[kStackNodesStart + random() % 640] = static_cast<char>(random());
    if (round % 8 == 0) session.header()->stack_nodes = static_cast<uint32_t>(random());
    trace::Trace trace;
    ASSERT_TRUE(trace.ParseFromString(DrainAll(&session))) << "round " << round;
    for (const trace::Packet& packet : trace.packet()) {
      for (const trace::InternedStack& stack : packet.interned().stack()) ASSERT_LT(stack.parent_iid(), stack.iid());
    }
  }
}

}  // namespace drain_stacks_test
}  // namespace dlhook
