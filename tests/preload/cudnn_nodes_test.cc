// The table of descriptors against a simple model, under random operations; ages of memory.
#include "preload/track/cudnn_nodes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "tests/preload/test_record.h"

namespace dlhook {
namespace {

struct ModelNode {
  int32_t type;
  std::vector<std::pair<int32_t, std::shared_ptr<ModelNode>>> children;
};

template <typename Predicate>
void EraseChildren(ModelNode* node, Predicate predicate) {
  node->children.erase(std::remove_if(node->children.begin(), node->children.end(), predicate), node->children.end());
}

// The same node as in the model, with the same children below.
void ExpectSame(const BackendNode& node, const ModelNode& model, int depth) {
  ASSERT_EQ(node.type, model.type);
  if (depth == 0) return;
  std::map<int32_t, std::vector<const BackendNode*>> children;
  ForEachChild(node, [&](int32_t attribute, const BackendNode& child) { children[attribute].push_back(&child); });
  std::map<int32_t, std::vector<const ModelNode*>> expected;
  for (const auto& [attribute, child] : model.children) expected[attribute].push_back(child.get());
  ASSERT_EQ(children.size(), expected.size());
  for (const auto& [attribute, list] : expected) {
    ASSERT_EQ(children[attribute].size(), list.size());
    // Both in the order in which they were set, if no other attribute was dropped in between: compare as multisets of
    // types.
    std::multiset<int32_t> types, expected_types;
    for (const BackendNode* child : children[attribute]) types.insert(child->type);
    for (const ModelNode* child : list) expected_types.insert(child->type);
    ASSERT_EQ(types, expected_types);
  }
  if (children.size() == 1) {
    const auto& [attribute, list] = *expected.begin();
    for (size_t i = 0; i < list.size() && children.size() == 1 && i < 3; ++i)
      ExpectSame(*children[attribute][i], *list[i], depth - 1);
  }
}

TEST(NodeTableTest, RandomOperationsAgainstAModel) {
  std::mt19937_64 random(20261121);
  auto table = std::make_unique<NodeTable>();
  std::map<uint64_t, std::shared_ptr<ModelNode>> model;
  int32_t serial = 0;
  // Parents have higher addresses than children: no cycles, as in cuDNN.
  const auto address = [&] { return 0x1000 + random() % 3000 * 64; };
  for (int step = 0; step < 200000; ++step) {
    const uint64_t at = address();
    const auto found = model.find(at);
    switch (random() % 8) {
      case 0:
      case 1:
        ASSERT_TRUE(table->Insert(Pointer(at), ++serial));
        model[at] = std::make_shared<ModelNode>(ModelNode{serial, {}});
        break;
      case 2:
        table->Remove(Pointer(at));
        model.erase(at);
        break;
      case 3:
      case 4: {
        BackendNode* node = table->Find(Pointer(at));
        ASSERT_EQ(node != nullptr, found != model.end());
        if (node == nullptr) break;
        const auto attribute = static_cast<int32_t>(random() % 3);
        std::vector<const void*> children;
        EraseChildren(found->second.get(), [&](const auto& child) { return child.first == attribute; });
        const size_t count = random() % 50 == 0 ? 80 : random() % 6;
        for (size_t i = 0; i < count; ++i) {
          const uint64_t child = 0x1000 + random() % ((at - 0x1000) / 64 + 1) * 64;
          children.push_back(Pointer(child));
          if (child != at && model.count(child) != 0) found->second->children.emplace_back(attribute, model[child]);
        }
        table->SetChildren(node, attribute, children.data(), static_cast<int64_t>(count));
        break;
      }
      case 5: {
        BackendNode* node = table->Find(Pointer(at));
        if (node == nullptr) break;
        const bool all = random() % 2 == 0;
        const auto attribute = all ? NodeTable::kAllAttributes : static_cast<int32_t>(random() % 3);
        table->DropChildren(node, attribute);
        EraseChildren(found->second.get(), [&](const auto& child) { return all || child.first == attribute; });
        break;
      }
      default: {
        const BackendNode* node = table->Find(Pointer(at));
        ASSERT_EQ(node != nullptr, found != model.end());
        if (node != nullptr) ExpectSame(*node, *found->second, 3);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_GT(model.size(), 100u);
}

// Children in the order in which they were set, beyond the capacity of a node and a block.
TEST(NodeTableTest, OrderOfManyChildren) {
  auto table = std::make_unique<NodeTable>();
  std::vector<const void*> children;
  for (uint64_t i = 0; i < 200; ++i) {
    children.push_back(Pointer(0x1000 + i * 64));
    ASSERT_TRUE(table->Insert(children.back(), static_cast<int32_t>(i)));
  }
  ASSERT_TRUE(table->Insert(Pointer(0x900000), 500));
  for (int64_t count : {0, 1, 4, 5, 34, 35, 64, 65, 200, 3}) {
    BackendNode* parent = table->Find(Pointer(0x900000));
    table->SetChildren(parent, 801, children.data(), count);
    int32_t next = 0;
    ForEachChild(*parent, [&](int32_t attribute, const BackendNode& child) {
      EXPECT_EQ(attribute, 801);
      EXPECT_EQ(child.type, next++);
    });
    EXPECT_EQ(next, count);
    EXPECT_EQ(ChildOf(*parent, 801) == nullptr, count == 0);
    EXPECT_EQ(ChildOf(*parent, 802), nullptr);
  }
}

TEST(NodeTableTest, ChildrenOutliveTheirDescriptors) {
  auto table = std::make_unique<NodeTable>();
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(table->Insert(Pointer(i * 0x1000), static_cast<int32_t>(i)));
  const void* child = Pointer(0x1000);
  const void* parent = Pointer(0x2000);
  const void* self[] = {Pointer(0x3000), parent, Pointer(0xdead000)};
  table->SetChildren(table->Find(parent), 1, &child, 1);
  table->SetChildren(table->Find(Pointer(0x3000)), 2, self, 3);  // neither itself nor an unknown one
  table->Remove(child);
  table->Remove(parent);
  EXPECT_EQ(table->Find(parent), nullptr);
  const BackendNode* root = table->Find(Pointer(0x3000));
  const BackendNode* middle = ChildOf(*root, 2);
  ASSERT_NE(middle, nullptr);
  EXPECT_EQ(middle->type, 2);
  EXPECT_EQ(root->child_count, 1u);
  ASSERT_NE(ChildOf(*middle, 1), nullptr);
  EXPECT_EQ(ChildOf(*middle, 1)->type, 1);
}

TEST(NodeTableTest, MemoryComesBackBySize) {
  auto table = std::make_unique<NodeTable>();
  for (size_t size : {1, 511, 512, 513, 1024, 5000, 65536, 1 << 20}) {
    char* memory = table->Allocate(size);
    ASSERT_NE(memory, nullptr);
    memset(memory, 0xee, size);
    char* other = table->Allocate(size);
    EXPECT_TRUE(other >= memory + size || other + size <= memory);
    table->Free(memory, size);
    EXPECT_EQ(table->Allocate(size), memory) << size;
  }
  EXPECT_EQ(table->Allocate(size_t{1} << 40), nullptr);
  table->Free(nullptr, 10);
}

TEST(NodeTableTest, NothingInAnEmptyTable) {
  auto table = std::make_unique<NodeTable>();
  EXPECT_EQ(table->Find(Pointer(0x1000)), nullptr);
  table->Remove(Pointer(0x1000));
  EXPECT_EQ(table->Find(nullptr), nullptr);
}

}  // namespace
}  // namespace dlhook
