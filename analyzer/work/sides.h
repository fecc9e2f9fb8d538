// The two sides of a comparison have distinct types, so that they can't be swapped by mistake.
#pragma once

#include <type_traits>
#include <utility>

namespace dlhook::analyzer::inline work {

// The run to compare with: before the change.
template <typename T>
class BaseSide {
 public:
  explicit BaseSide(T value) : value_(std::move(value)) {}
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

// The run that is judged: after the change.
template <typename T>
class NewSide {
 public:
  explicit NewSide(T value) : value_(std::move(value)) {}
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

static_assert(!std::is_convertible_v<BaseSide<int>, NewSide<int>> &&
                  !std::is_convertible_v<NewSide<int>, BaseSide<int>> &&
                  !std::is_constructible_v<BaseSide<int>, NewSide<int>> &&
                  !std::is_constructible_v<NewSide<int>, BaseSide<int>> && !std::is_convertible_v<int, BaseSide<int>> &&
                  !std::is_convertible_v<int, NewSide<int>>,
              "the sides of a comparison must not become each other");

}  // namespace dlhook::analyzer::work
