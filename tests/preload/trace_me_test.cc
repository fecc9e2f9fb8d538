// Parsing of TensorFlow's trace events.
#include "preload/tap/trace_me.h"

#include <gtest/gtest.h>

#include <string>

namespace dlhook {
namespace {

constexpr int64_t kNowNs = 1795298320000000000;

std::string NameOf(const std::string& text) { return text.substr(0, ParseTraceMeName(text.data(), text.size()).bytes); }
ScopeKind KindOf(const std::string& text) { return ParseTraceMeName(text.data(), text.size()).kind; }

TEST(TraceMeNameTest, NodesHaveANameAndAKernelsType) {
  EXPECT_EQ(KindOf("StatefulPartitionedCall/net_1/conv1_1/Relu:_MklNativeFusedConv2D"), ScopeKind::kGraphNode);
  EXPECT_EQ(KindOf("GatherV2:GatherV2"), ScopeKind::kGraphNode);
  EXPECT_EQ(KindOf("_send_ConstantFolding/a-b/c.d_0:_Send"), ScopeKind::kGraphNode);
  EXPECT_EQ(KindOf("net/conv:Conv2D#shape=(1,2)#"), ScopeKind::kGraphNode);
}

TEST(TraceMeNameTest, OtherEventsAreNoNodes) {
  for (const char* name : {"Iterator::Root::Prefetch", "EagerLocalExecute: MatMul", "FunctionRun", "", ":",
                           "a:", ":Relu", "Iterator::Zip[0]::FlatMap", "a b:Relu"}) {
    EXPECT_EQ(KindOf(name), ScopeKind::kTraceMe) << name;
  }
}

TEST(TraceMeNameTest, ValuesAreNoPartOfIt) {
  EXPECT_EQ(NameOf("Iterator::Map#id=7,parent_id=3#"), "Iterator::Map");
  EXPECT_EQ(NameOf("net/conv:Conv2D#shape=(1,2)#"), "net/conv:Conv2D");
  EXPECT_EQ(NameOf("a#b"), "a#b");
  EXPECT_EQ(NameOf("#id=7#"), "#id=7#");
  EXPECT_EQ(NameOf("#"), "#");
}

// An event as laid out by TensorFlow's compiler: this program's own std::string.
struct HostEvent {
  std::string name;
  int64_t start_ns;
  int64_t end_ns;
};
static_assert(sizeof(HostEvent) == sizeof(TraceMeEvent));

const TraceMeEvent& AsEvent(const HostEvent& event) { return reinterpret_cast<const TraceMeEvent&>(event); }

TEST(TraceMeEventTest, LayoutIsThatOfTheHost) {
  for (const std::string& name : {std::string("short"), std::string(300, 'x')}) {
    HostEvent event = {name, kNowNs - 500, kNowNs - 100};
    EXPECT_EQ(std::string(AsEvent(event).name, AsEvent(event).name_bytes), name);
    EXPECT_EQ(AsEvent(event).end_ns - AsEvent(event).start_ns, 400);
    EXPECT_TRUE(IsPlausibleEvent(AsEvent(event), kNowNs));
    EXPECT_TRUE(IsWholeEvent(AsEvent(event)));
  }
}

TEST(TraceMeEventTest, HalvesAndMarksAreNoScopes) {
  EXPECT_FALSE(IsWholeEvent(AsEvent({"begin", kNowNs, -7})));
  EXPECT_FALSE(IsWholeEvent(AsEvent({"", -7, kNowNs})));
  EXPECT_FALSE(IsWholeEvent(AsEvent({"mark", kNowNs, kNowNs})));
  EXPECT_TRUE(IsPlausibleEvent(AsEvent({"begin", kNowNs, -7}), kNowNs));
}

TEST(TraceMeEventTest, AnotherLayoutOrClockIsNoticed) {
  HostEvent event = {"short", kNowNs - 500, kNowNs - 100};
  TraceMeEvent changed = AsEvent(event);  // its name is in another object: neither short nor of a known capacity
  changed.capacity = 3;
  EXPECT_FALSE(IsPlausibleEvent(changed, kNowNs));
  changed.name = nullptr;
  changed.capacity = 100;
  EXPECT_FALSE(IsPlausibleEvent(changed, kNowNs));
  EXPECT_FALSE(IsPlausibleEvent(AsEvent({"monotonic", 36040, 36050}), kNowNs));
  EXPECT_FALSE(IsPlausibleEvent(AsEvent({"backward", kNowNs, kNowNs - 1}), kNowNs));
}

}  // namespace
}  // namespace dlhook
