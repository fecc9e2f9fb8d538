// ECMA-48 "select graphic rendition", the sequences that every terminal since the VT100 understands or ignores.
#include "analyzer/render/style.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline render {
namespace {

constexpr absl::string_view kEnd = "\033[0m";

absl::string_view Begin(Style style) {
  switch (style) {
    case Style::kTitle:
      return "\033[1;36m";  // bold cyan
    case Style::kHeader:
      return "\033[1m";
    case Style::kQuiet:
      return "\033[2m";
    case Style::kHot:
      return "\033[1;35m";  // bold magenta: on white, too
    case Style::kWarning:
      return "\033[33m";
    case Style::kPlain:
      break;
  }
  return "";
}

}  // namespace

std::string Styled(absl::string_view text, Style style, bool color) {
  const size_t begin = text.find_first_not_of(' ');
  if (!color || style == Style::kPlain || begin == absl::string_view::npos) return std::string(text);
  const size_t end = text.find_last_not_of(' ') + 1;
  return absl::StrCat(text.substr(0, begin), Begin(style), text.substr(begin, end - begin), kEnd, text.substr(end));
}

size_t StyleLength(absl::string_view text) {
  for (const Style style : {Style::kTitle, Style::kHeader, Style::kQuiet, Style::kHot, Style::kWarning}) {
    if (absl::StartsWith(text, Begin(style))) return Begin(style).size();
  }
  return absl::StartsWith(text, kEnd) ? kEnd.size() : 0;
}

}  // namespace dlhook::analyzer::render
