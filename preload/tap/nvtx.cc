// Names of NVTX ranges. Pure functions; the callbacks are in nvtx_hooks.cc.
#include "preload/tap/nvtx.h"

#include <stdio.h>
#include <stdlib.h>

#include <algorithm>

#include "preload/python/python_layout.h"

namespace dlhook::inline tap {
namespace {

void BeginName(const char* domain, NvtxName* name) {
  constexpr size_t kDomainRoom = kMaxScopeNameBytes / 2;
  const bool has_domain = domain != nullptr && domain[0] != '\0';
  const int length = has_domain ? snprintf(name->text, kDomainRoom, "%s: ", domain) : 0;
  name->bytes = std::min(static_cast<size_t>(length), kDomainRoom - 1);
  name->link = -1;
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

}  // namespace

size_t Utf8FromWide(const wchar_t* text, char* buffer, size_t size) {
  size_t length = 0;
  while (length < size && text[length] != L'\0') ++length;
  size_t used = EncodeUtf8(text, length, sizeof *text, buffer, size - 1);
  buffer[used] = '\0';
  return used;
}

void ComposeNvtxName(const char* domain, const char* message, NvtxName* name) {
  BeginName(domain, name);
  if (message == nullptr) message = "";
  const size_t bytes = strnlen(message, sizeof name->text - 1 - name->bytes);
  memcpy(name->text + name->bytes, message, bytes);
  name->bytes += bytes;
  TakeSequenceNumber(name);
}

void ComposeNvtxName(const char* domain, const wchar_t* message, NvtxName* name) {
  BeginName(domain, name);
  const size_t room = sizeof name->text - name->bytes;
  name->bytes += Utf8FromWide(message == nullptr ? L"" : message, name->text + name->bytes, room);
  TakeSequenceNumber(name);
}

}  // namespace dlhook::inline tap
