// All of these go through text character by character and differ in how they replace a dangerous one.
#include "analyzer/render/escape.h"

#include "analyzer/render/text_columns.h"
#include "preload/format/character.h"

namespace dlhook::analyzer::inline render {
namespace {

// The text with `put(rest, out)` applied to each dangerous character. `put` returns how many bytes of `rest`, which
// begins with the character, it has consumed.
template <typename Put>
std::string Replaced(absl::string_view text, Put put) {
  std::string out;
  out.reserve(text.size());
  size_t begin = 0;  // of the part not copied yet
  for (size_t at = 0; at < text.size();) {
    const Character character = FirstCharacter(text.data() + at, text.size() - at);
    if (!IsDangerous(character)) {
      at += character.bytes;
      continue;
    }
    absl::StrAppend(&out, text.substr(begin, at - begin));
    at += put(text.substr(at), character, &out);
    begin = at;
  }
  return absl::StrCat(out, text.substr(begin));
}

size_t PutVisible(absl::string_view /*rest*/, const Character& character, std::string* out) {
  if (character.code == '\n') {
    absl::StrAppend(out, "\\n");
  } else if (character.code == '\t') {
    absl::StrAppend(out, "\\t");
  } else if (character.bytes == 1) {
    absl::StrAppendFormat(out, "\\x%02x", character.code);
  } else if (character.code < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", character.code);
  } else {
    absl::StrAppendFormat(out, "\\U%08x", character.code);
  }
  return character.bytes;
}

size_t PutJson(absl::string_view /*rest*/, const Character& character, std::string* out) {
  if (character.code == '\n') {
    out->push_back('\n');  // between values: inside a string the library has escaped it
  } else if (character.code < 0x10000) {
    absl::StrAppendFormat(out, "\\u%04x", character.code);
  } else {
    const uint32_t code = character.code - 0x10000;
    absl::StrAppendFormat(out, "\\u%04x\\u%04x", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
  }
  return character.bytes;
}

size_t PutTextproto(absl::string_view rest, const Character& character, std::string* out) {
  if (character.code == '\n') {
    out->push_back('\n');
    return 1;
  }
  for (const char byte : rest.substr(0, character.bytes))
    absl::StrAppendFormat(out, "\\%03o", static_cast<uint8_t>(byte));
  return character.bytes;
}

// "=1+1", also with the full-width signs of East Asian keyboards, which some spreadsheets treat alike.
bool LooksLikeFormula(absl::string_view text) {
  for (const absl::string_view sign : {"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"}) {
    if (absl::StartsWith(text, sign)) return true;
  }
  return false;
}

}  // namespace

std::string VisibleText(absl::string_view text) { return Replaced(text, PutVisible); }

std::string VisibleLines(absl::string_view text) {
  return Replaced(text, [](absl::string_view rest, const Character& character, std::string* out) {
    const size_t kept = character.code == '\n' ? 1 : StyleLength(rest);
    if (kept == 0) return PutVisible(rest, character, out);
    out->append(rest.data(), kept);
    return kept;
  });
}

std::string CsvField(absl::string_view text) {
  std::string field = VisibleText(text);
  if (LooksLikeFormula(field)) field.insert(0, 1, '\'');
  if (field.find_first_of("\",") == std::string::npos) return field;
  return absl::StrCat("\"", absl::StrReplaceAll(field, {{"\"", "\"\""}}), "\"");
}

std::string EscapedJson(absl::string_view json) { return Replaced(json, PutJson); }
std::string EscapedTextproto(absl::string_view textproto) { return Replaced(textproto, PutTextproto); }
std::string CallgrindName(absl::string_view name) { return VisibleText(name); }

std::string FoldedFrame(absl::string_view name) {
  std::string frame = absl::StrReplaceAll(VisibleText(name), {{";", ":"}});
  absl::StripAsciiWhitespace(&frame);
  if (frame.empty()) return "?";
  const size_t blank = frame.rfind(' ');
  const bool ends_in_number =
      blank != std::string::npos && frame.find_first_not_of("0123456789.", blank + 1) == std::string::npos;
  if (ends_in_number) frame[blank] = '_';
  return frame;
}

std::string MarkdownText(absl::string_view text) {
  constexpr absl::string_view kSigns = "\\`*_[]|#~$";
  const std::string visible = absl::StrReplaceAll(VisibleText(text), {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
  // What begins a list or a heading at the beginning of a line: "-", "=", "1. ".
  const size_t sign = visible.find_first_not_of("0123456789");
  const bool begins_block =
      sign != std::string::npos &&
      (sign == 0 ? absl::StrContains("-+=", visible[0]) && visible.size() > 1
                 : absl::StrContains(".)", visible[sign]) && (sign + 1 == visible.size() || visible[sign + 1] == ' '));
  std::string out;
  for (size_t i = 0; i < visible.size(); ++i) {
    if (absl::StrContains(kSigns, visible[i]) || (begins_block && i == sign)) out += '\\';
    out += visible[i];
  }
  return out;
}

}  // namespace dlhook::analyzer::render
