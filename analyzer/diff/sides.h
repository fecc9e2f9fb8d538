// The two sides of a comparison have distinct types, so that they can't be swapped by mistake.
#ifndef DLHOOK_ANALYZER_DIFF_SIDES_H_
#define DLHOOK_ANALYZER_DIFF_SIDES_H_

#include <type_traits>
#include <utility>

namespace dlhook::analyzer::inline diff {

// The run to compare with: before the change.
template <typename T>
class Baseline {
 public:
  explicit Baseline(T value) : value_(std::move(value)) {}
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

// The run that is judged: after the change. (A "candidate" is an algorithm that a search tries: model/op.h.)
template <typename T>
class Contender {
 public:
  explicit Contender(T value) : value_(std::move(value)) {}
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

static_assert(!std::is_convertible_v<Baseline<int>, Contender<int>> &&
                  !std::is_convertible_v<Contender<int>, Baseline<int>> &&
                  !std::is_constructible_v<Baseline<int>, Contender<int>> &&
                  !std::is_constructible_v<Contender<int>, Baseline<int>> &&
                  !std::is_convertible_v<int, Baseline<int>> && !std::is_convertible_v<int, Contender<int>>,
              "the sides of a comparison must not become each other");

}  // namespace dlhook::analyzer::diff

#endif  // DLHOOK_ANALYZER_DIFF_SIDES_H_
