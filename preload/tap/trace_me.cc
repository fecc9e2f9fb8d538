// Parses TensorFlow's trace events. Pure functions; the interposed ones are in trace_me_hooks.cc.
#include "preload/tap/trace_me.h"

namespace dlhook::inline tap {
namespace {

constexpr size_t kLongestName = 1 << 20;  // TensorFlow appends shapes and values, but far less than this
constexpr int64_t kSecondNs = 1000 * 1000 * 1000;

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Characters that TensorFlow allows in a node's name.
bool IsNodeCharacter(char c) { return IsWordCharacter(c) || c == '/' || c == '.' || c == '-' || c == '>' || c == '\\'; }

// "path/of/node:KernelType", with one colon. "Iterator::Map" and "EagerLocalExecute: MatMul" are not nodes.
bool IsNode(const char* name, size_t bytes) {
  auto colon = static_cast<const char*>(memchr(name, ':', bytes));
  if (colon == nullptr || colon == name || colon + 1 == name + bytes) return false;
  for (const char* c = name; c != colon; ++c) {
    if (!IsNodeCharacter(*c)) return false;
  }
  for (const char* c = colon + 1; c != name + bytes; ++c) {
    if (!IsWordCharacter(*c)) return false;
  }
  return true;
}

}  // namespace

bool IsPlausibleEvent(const TraceMeEvent& event, int64_t now_ns) {
  bool is_short = event.name == event.short_name;
  bool fits = is_short ? event.name_bytes < sizeof event.short_name
                       : event.capacity >= event.name_bytes && event.capacity >= sizeof event.short_name;
  if (!fits || event.name == nullptr || event.name_bytes > kLongestName) return false;
  if (event.end_ns <= 0 || event.start_ns <= 0) return true;  // half an event
  bool ends_now = event.end_ns <= now_ns + kSecondNs && event.end_ns >= now_ns - 60 * kSecondNs;
  return ends_now && event.start_ns <= event.end_ns;
}

TraceMeName ParseTraceMeName(const char* name, size_t bytes) {
  if (bytes > 1 && name[bytes - 1] == '#') {
    auto values = static_cast<const char*>(memchr(name, '#', bytes - 1));
    if (values != nullptr && values != name) bytes = static_cast<size_t>(values - name);
  }
  return {bytes, IsNode(name, bytes) ? ScopeKind::kGraphNode : ScopeKind::kTraceMe};
}

}  // namespace dlhook::inline tap
