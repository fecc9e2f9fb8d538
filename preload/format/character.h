// Characters of untrusted text, and which of them must not reach a terminal or a line unescaped.
// Thread: any. Pure functions, for shim and analyzer alike.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace dlhook::inline format {

struct Character {
  uint32_t code = 0;  // its code point; for invalid UTF-8, one byte
  uint32_t bytes = 1;
  bool is_utf8 = true;
};

// The first character of a non-empty text. Strict: no overlong forms, no surrogates.
constexpr Character FirstCharacter(const char* text, size_t size) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1, true};
  const uint32_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (bytes == 0 || bytes > size) return {first, 1, false};
  uint32_t code = first & (0xffu >> (bytes + 1));
  for (uint32_t i = 1; i < bytes; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    if ((next & 0xc0) != 0x80) return {first, 1, false};
    code = code << 6 | (next & 0x3f);
  }
  const bool is_overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (is_overlong || is_surrogate || code > 0x10ffff) return {first, 1, false};
  return {code, bytes, true};
}

// Characters that move the cursor, end a line, control the terminal (C0, DEL, C1), change the direction of the
// surrounding text, or are invisible.
constexpr bool IsDangerous(const Character& character) {
  constexpr uint32_t kRanges[][2] = {
      {0, 0x1f},         {0x7f, 0x9f},        // controls
      {0xad, 0xad},                           // soft hyphen
      {0x61c, 0x61c},    {0x180e, 0x180e},    // Arabic letter mark, Mongolian vowel separator
      {0x200b, 0x200f},  {0x2028, 0x202e},    // zero width, directions, ends of lines and paragraphs
      {0x2060, 0x206f},  {0xfeff, 0xfeff},    // zero width, isolates
      {0xfff9, 0xfffb},  {0x1d173, 0x1d17a},  // annotations, musical controls
      {0xe0000, 0xe0fff}};                    // tags
  if (character.code >= 0x20 && character.code < 0x7f) return false;  // almost always
  if (!character.is_utf8) return true;
  for (const auto& range : kRanges) {
    if (character.code >= range[0] && character.code <= range[1]) return true;
  }
  return false;
}

// `text` with "\x1b" for each byte of dangerous characters; truncated if `out` is full.
inline void SpellOut(const char* text, char* out, size_t size) {
  constexpr char kDigits[] = "0123456789abcdef";
  const char* const end = out + size - 1;
  for (size_t rest = strlen(text); rest > 0;) {
    const Character character = FirstCharacter(text, rest);
    const bool is_spelled = IsDangerous(character);
    if (static_cast<size_t>(end - out) < size_t{character.bytes} * (is_spelled ? 4 : 1)) break;
    for (uint32_t i = 0; i < character.bytes; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      if (is_spelled) {
        *out++ = '\\';
        *out++ = 'x';
        *out++ = kDigits[byte >> 4];
        *out++ = kDigits[byte & 15];
      } else {
        *out++ = text[i];
      }
    }
    text += character.bytes;
    rest -= character.bytes;
  }
  *out = '\0';
}

}  // namespace dlhook::inline format
