#include "analyzer/import/kineto/json_text.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline kineto {
namespace {

constexpr size_t kMostTextBytes = 16 << 20;  // of one string

// Surrogates are one character only together.
void AppendUtf8(uint32_t code, std::string* to) {
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  to->push_back(static_cast<char>(kFirst[more] | code >> 6 * more));
  for (int i = more - 1; i >= 0; --i) to->push_back(static_cast<char>(0x80 | (code >> 6 * i & 0x3f)));
}

}  // namespace

JsonText::JsonText(UnpackedFile* file, const std::function<void(uint64_t)>& progress)
    : file_(file), progress_(progress) {
  Refill();
  if (absl::StartsWith(absl::string_view(at_, static_cast<size_t>(end_ - at_)), kByteOrderMark))
    at_ += kByteOrderMark.size();  // as some editors write it
}

// Keeps what begins at at_, which is valid no longer where it was.
bool JsonText::Refill() {
  const auto kept = static_cast<size_t>(end_ - at_);
  before_ += static_cast<uint64_t>(at_ - begin_);
  if (kept > 0) buffer_ = std::string(at_, kept);
  is_too_long_ = kept > kMostTextBytes;
  const absl::string_view piece = is_too_long_ ? absl::string_view() : file_->Next();
  if (progress_) progress_(file_->bytes_read());
  if (kept > 0) buffer_.append(piece.data(), piece.size());
  begin_ = at_ = kept > 0 ? buffer_.data() : piece.empty() ? "" : piece.data();
  end_ = begin_ + kept + piece.size();
  is_at_end_ = piece.empty();
  return !is_at_end_;
}

absl::string_view JsonText::Text() {
  if (Peek() != '"') return {};
  bool has_escapes = false, is_escaped = false;
  for (size_t i = 1;; ++i) {
    if (at_ + i == end_ && !Refill()) return {};
    if (is_escaped || at_[i] == '\\') {
      is_escaped = !is_escaped;
      has_escapes = true;
    } else if (at_[i] == '"') {
      const absl::string_view text(at_ + 1, i - 1);
      at_ += i + 1;
      return has_escapes ? Unescaped(text) : text;
    }
  }
}

absl::string_view JsonText::Word() {
  const auto is_of_word = [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '+'; };
  size_t size = 0;
  for (Peek();; ++size) {
    if (at_ + size == end_ && !Refill()) break;
    if (!is_of_word(at_[size])) break;
  }
  at_ += size;
  return size == 0 ? absl::string_view() : absl::string_view(at_ - size, size);
}

absl::string_view JsonText::Unescaped(absl::string_view text) {
  constexpr absl::string_view kEscapes = "bfnrt", kMeant = "\b\f\n\r\t";
  unescaped_.clear();
  uint32_t high = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      unescaped_.push_back(text[i]);
      continue;
    }
    const char escaped = text[++i];
    uint32_t code = 0;
    if (escaped == 'u' && absl::SimpleHexAtoi(text.substr(i + 1, 4), &code)) {
      i += std::min<size_t>(4, text.size() - i - 1);
      if (high != 0 && code >> 10 == 0xdc00 >> 10) code = 0x10000 + ((high & 0x3ff) << 10) + (code & 0x3ff);
      high = code >> 10 == 0xd800 >> 10 ? code : 0;
      if (code >> 11 != 0xd800 >> 11) AppendUtf8(code, &unescaped_);
      continue;
    }
    const size_t known = kEscapes.find(escaped);
    unescaped_.push_back(known == kEscapes.npos ? escaped : kMeant[known]);
  }
  return unescaped_;
}

std::string JsonText::Trouble(absl::string_view what) {
  const uint64_t place = before_ + static_cast<uint64_t>(at_ - begin_);
  return absl::StrCat("byte ", place, " of its text: ",
                      is_too_long_ ? absl::StrCat("a text of more than ", kMostTextBytes, " bytes")
                      : is_at_end_ ? "the JSON ends here, in the middle: the file is cut off"
                                   : what);
}

}  // namespace dlhook::analyzer::kineto
