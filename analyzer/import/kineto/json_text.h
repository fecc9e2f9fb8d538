// JSON in pieces, value after value: of a file of any size a piece is in memory. Lenient: numbers are words, whatever they are.
#pragma once

#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "analyzer/import/kineto/unpacked_file.h"

namespace dlhook::analyzer::inline kineto {

inline constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

class JsonText {
 public:
  // `progress`: see ImportKineto.
  JsonText(UnpackedFile* file, const std::function<void(uint64_t)>& progress);

  bool is_empty() const { return at_ == end_; }
  // Calls `to`'s Key, Value (of texts and of other words), Start and End (of '{' or '['), each of which may refuse. Empty: all was read; else
  // why not.
  template <typename Handler>
  std::string Read(Handler* to);

 private:
  // The next character that is no space; NUL at the end.
  char Peek() {
    for (;; ++at_) {
      if (at_ == end_ && !Refill()) return 0;
      if (static_cast<unsigned char>(*at_) > ' ') return *at_;
    }
  }
  bool Accept(char wanted) {
    if (Peek() != wanted) return false;
    ++at_;
    return true;
  }
  // Valid until the next one is read. Null: there is none.
  absl::string_view Text();
  absl::string_view Word();
  bool Refill();
  absl::string_view Unescaped(absl::string_view text);
  std::string Trouble(absl::string_view what);

  UnpackedFile* file_;
  const std::function<void(uint64_t)>& progress_;
  std::string buffer_;  // what is not read yet of earlier pieces, and the next one
  const char* begin_ = "";
  const char* at_ = begin_;
  const char* end_ = begin_;
  uint64_t before_ = 0;  // bytes before the buffer
  bool is_at_end_ = false, is_too_long_ = false;
  std::string unescaped_;
};

template <typename Handler>
std::string JsonText::Read(Handler* to) {
  std::string open;  // brackets
  for (;;) {
    if (!open.empty() && open.back() == '{') {
      const absl::string_view name = Text();
      if (name.data() == nullptr) return Trouble("a name is missing");
      to->Key(name);
      if (!Accept(':')) return Trouble("a colon is missing");
    }
    const char first = Peek();
    if (first == '{' || first == '[') {
      ++at_;
      open.push_back(first);
      if (!to->Start(first)) return Trouble(to->trouble());
      if (!Accept(static_cast<char>(first + 2))) continue;
      to->End(first);
      open.pop_back();
    } else {
      const absl::string_view value = first == '"' ? Text() : Word();
      if (value.data() == nullptr) return Trouble("a value is missing");
      to->Value(value, first == '"');
    }
    while (!open.empty() && Accept(static_cast<char>(open.back() + 2))) {
      to->End(open.back());
      open.pop_back();
    }
    if (open.empty()) return Peek() == 0 ? "" : Trouble("it goes on behind its end");
    if (!Accept(',')) return Trouble("a comma or a closing bracket is missing");
  }
}

}  // namespace dlhook::analyzer::kineto
