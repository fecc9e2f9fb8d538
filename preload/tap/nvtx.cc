// Names of NVTX ranges. Pure functions; the callbacks are in nvtx_hooks.cc.
#include "preload/tap/nvtx.h"

#include <stdio.h>
#include <stdlib.h>

namespace dlhook::inline tap {
namespace {

// Encodes a character as UTF-8 into `bytes`, returns its length. Invalid characters become U+FFFD.
size_t Encode(uint32_t character, char* bytes) {
  if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000)) character = 0xfffd;
  if (character < 0x80) {
    bytes[0] = static_cast<char>(character);
    return 1;
  }
  size_t length = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
  for (size_t i = length - 1; i > 0; --i) {
    bytes[i] = static_cast<char>(0x80 | (character & 0x3f));
    character >>= 6;
  }
  static constexpr uint8_t kFirst[] = {0, 0, 0xc0, 0xe0, 0xf0};
  bytes[0] = static_cast<char>(kFirst[length] | character);
  return length;
}

// Removes ", seq = 17, op_id = 4…" from the name and keeps the number.
void TakeSequenceNumber(NvtxName* name) {
  name->text[name->bytes] = '\0';
  char* numbers = strstr(name->text, ", op_id = ");
  char* sequence = strstr(name->text, ", seq = ");
  if (numbers == nullptr) return;
  if (sequence != nullptr && sequence < numbers) {
    name->link = strtoll(sequence + strlen(", seq = "), nullptr, 10);
    numbers = sequence;
  }
  name->bytes = static_cast<size_t>(numbers - name->text);
}

void Begin(const char* domain, NvtxName* name) {
  name->bytes = 0;
  name->link = -1;
  if (domain == nullptr || domain[0] == '\0') return;
  constexpr size_t kRoom = kMaxScopeNameBytes / 2;
  auto bytes = static_cast<size_t>(snprintf(name->text, kRoom, "%s: ", domain));
  name->bytes = bytes < kRoom ? bytes : kRoom - 1;
}

}  // namespace

size_t Utf8FromWide(const wchar_t* text, char* buffer, size_t size) {
  size_t used = 0;
  for (; *text != L'\0'; ++text) {
    char bytes[4];
    size_t length = Encode(static_cast<uint32_t>(*text), bytes);
    if (used + length + 1 > size) break;
    memcpy(buffer + used, bytes, length);
    used += length;
  }
  buffer[used] = '\0';
  return used;
}

void ComposeNvtxName(const char* domain, const char* message, NvtxName* name) {
  Begin(domain, name);
  if (message == nullptr) message = "";
  size_t room = sizeof name->text - 1 - name->bytes;
  size_t bytes = strnlen(message, room);
  memcpy(name->text + name->bytes, message, bytes);
  name->bytes += bytes;
  TakeSequenceNumber(name);
}

void ComposeNvtxName(const char* domain, const wchar_t* message, NvtxName* name) {
  Begin(domain, name);
  if (message == nullptr) message = L"";
  name->bytes += Utf8FromWide(message, name->text + name->bytes, sizeof name->text - name->bytes);
  TakeSequenceNumber(name);
}

}  // namespace dlhook::inline tap
