// Parses oneDNN's log settings and lines. Pure functions; the interposed ones are in onednn_hooks.cc.
#include "preload/tap/onednn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <string_view>

namespace dlhook::inline tap {
namespace {

// Base names begin with one of these. Tested: see preload/tap/README.md.
const char* const kKnownCarriers[] = {"libtorch_cpu.so",  "libtensorflow_cc.so", "libtensorflow_framework.so",
                                      "libjax_common.so", "libmxnet.so",         "libdnnl.so",
                                      "libmkldnn.so",     "_pywrap_tensorflow"};

struct SettingWord {
  const char* word;
  uint32_t lines;
};
// The words of 3.x; 2.x only knows numbers.
constexpr SettingWord kSettingWords[] = {
    {"all", kInfoLines | kExecutionLines | kCreationLines | kOtherLines},
    {"profile_exec", kInfoLines | kExecutionLines},
    {"profile_create", kInfoLines | kCreationLines},
    {"profile", kInfoLines | kExecutionLines | kCreationLines},
    {"none", kNoLines},
};

uint32_t LinesOfWord(const char* word, size_t length) {
  for (const SettingWord& known : kSettingWords) {
    if (strlen(known.word) == length && strncmp(known.word, word, length) == 0) return known.lines;
  }
  if (length > 0 && word[0] >= '0' && word[0] <= '9') return LinesOfLevel(atoi(word));
  return kInfoLines | kOtherLines;  // error, check, dispatch, debuginfo, warn, filter=…
}

}  // namespace

uint32_t LinesOfLevel(int level) {
  if (level <= 0) return kNoLines;
  uint32_t lines = kInfoLines | kExecutionLines | kOtherLines;
  return level == 1 ? lines : lines | kCreationLines;
}

uint32_t LinesOfSetting(const char* value) {
  uint32_t lines = kNoLines;
  while (value != nullptr && *value != '\0') {
    size_t length = strcspn(value, ",");
    lines |= LinesOfWord(value, length);
    value += length;
    if (*value == ',') ++value;
  }
  return lines;
}

VerboseLines KindOfLine(const char* text) {
  char start[96];  // the operation is among the first few fields
  snprintf(start, sizeof start, "%.95s", text);
  // A primitive's name may contain anything; the operation comes first.
  for (char* field = strchr(start, ','); field != nullptr; field = strchr(field + 1, ',')) {
    // "create:dispatch", "create:check", "exec:check" …: why something was not done.
    const char* detail = field + 1 + strcspn(field + 1, ":,");
    bool is_check = strncmp(detail, ":dispatch", 9) == 0 || strncmp(detail, ":check", 6) == 0;
    if (strncmp(field, ",exec", 5) == 0) return is_check ? kOtherLines : kExecutionLines;
    if (strncmp(field, ",create", 7) == 0) return is_check ? kOtherLines : kCreationLines;
    if (strncmp(field, ",info", 5) == 0) return kInfoLines;
    bool may_go_on = strncmp(field, ",v", 2) == 0 || strncmp(field, ",primitive", 10) == 0 ||
                     strncmp(field, ",graph", 6) == 0 || strncmp(field, ",ukernel", 8) == 0 ||
                     (field[1] >= '0' && field[1] <= '9');
    if (!may_go_on) return kOtherLines;
  }
  return kOtherLines;
}

bool IsKnownOneDnnCarrier(const char* object_name) {
  const std::string_view name = object_name;
  return std::ranges::any_of(kKnownCarriers, [&](const char* carrier) { return name.starts_with(carrier); });
}

const char* SettingToAnswer(const char* user_value, int level, char* buffer, uint32_t buffer_size) {
  uint32_t wanted = LinesOfLevel(level) & (kExecutionLines | kCreationLines);
  uint32_t users = LinesOfSetting(user_value);
  if ((users & wanted) == wanted) return user_value;
  if ((users & ~uint32_t{kInfoLines}) == 0 && strstr(user_value == nullptr ? "" : user_value, "filter") == nullptr) {
    return level >= 2 ? "2" : "1";  // nothing set, "0" or "none"
  }
  if (user_value[0] >= '0' && user_value[0] <= '9') return user_value;  // "1": no creations
  snprintf(buffer, buffer_size, "%s,%s", user_value, level >= 2 ? "profile" : "profile_exec");
  return buffer;
}

}  // namespace dlhook::inline tap
