// Reads the DLHOOK_* variables: preload/format/variables.inc.
#include "preload/runtime/config.h"

#include <stdio.h>
#include <stdlib.h>

#include <atomic>

#include "preload/base/environment.h"
#include "preload/format/hook_table.h"

namespace dlhook::inline runtime {
namespace {

struct Variable {
  const char* name;
  const char* values;
  const char* standard;  // the default
};

void Complain(const Variable& variable, const char* value, const char* expected, Config* config) {
  if (config->complaint[0] != '\0') return;
  snprintf(config->complaint, sizeof config->complaint, "%s=%.60s is not understood, expected %s", variable.name, value,
           expected);
}

// The words of "`on`, `light`, `off`".
struct Words {
  const char* word;
  size_t length;
  explicit Words(const char* text) : word(text), length(0) { Next(); }
  void Next() {
    word += length;
    word += strspn(word, "`, ");
    length = strcspn(word, "`, ");
  }
};

int IndexOf(const char* values, const char* wanted, size_t length) {
  int index = 0;
  for (Words words(values); words.length > 0; words.Next(), ++index) {
    if (words.length == length && strncmp(words.word, wanted, length) == 0) return index;
  }
  return -1;
}

// The index of `value`, or of the default.
int IndexOfChoice(const Variable& variable, const char* value, Config* config) {
  int index = value == nullptr ? -1 : IndexOf(variable.values, value, strlen(value));
  if (index >= 0) return index;
  if (value != nullptr) {
    char expected[64] = "";  // "on, light or off"
    size_t used = 0;
    for (Words words(variable.values), next = words; words.length > 0; words = next) {
      next.Next();
      const char* link = used == 0 ? "" : next.length == 0 ? " or " : ", ";
      used += static_cast<size_t>(snprintf(expected + used, sizeof expected - used, "%s%.*s", link,
                                           static_cast<int>(words.length), words.word));
    }
    Complain(variable, value, expected, config);
  }
  Words standard(variable.standard);
  return IndexOf(variable.values, standard.word, standard.length);
}

// How variables are read: `value` is null if one is not set.

struct Text {
  template <size_t N>
  void Read(const Variable&, const char* value, char (*member)[N], Config*) const {
    if (value != nullptr) snprintf(*member, N, "%s", value);
  }
};

class Choice {
 public:
  explicit Choice(int first = 0) : first_(first) {}
  template <typename Member>
  void Read(const Variable& variable, const char* value, Member* member, Config* config) const {
    *member = static_cast<Member>(first_ + IndexOfChoice(variable, value, config));
  }

 private:
  int first_;  // the enumerator of the first value
};

struct Switch {
  void Read(const Variable& variable, const char* value, bool* member, Config* config) const {
    *member = IndexOfChoice(variable, value, config) == IndexOf(variable.values, "on", 2);
  }
};

struct One {
  void Read(const Variable& variable, const char* value, bool* member, Config* config) const {
    *member = value != nullptr && strcmp(value, "1") == 0;
    if (value != nullptr && !*member && *value != '\0' && strcmp(value, "0") != 0)
      Complain(variable, value, "1", config);
  }
};

uint32_t AllFamilies() { return (1u << kFamilyCount) - 1; }

// One word of a list of families. If the `first` is "-x", the list starts from all families.
uint32_t ApplyFamily(const Variable& variable, const char* word, size_t length, uint32_t mask, bool first,
                     Config* config) {
  bool remove = word[0] == '-';
  if (remove) {
    ++word;
    --length;
    if (first) mask = kDefaultFamilies;
  }
  uint32_t bits = 0;
  if (length == 3 && strncmp(word, "all", 3) == 0) bits = AllFamilies();
  for (int i = 0; i < kFamilyCount; ++i) {
    if (strlen(kFamilyNames[i]) == length && strncmp(word, kFamilyNames[i], length) == 0) bits = 1u << i;
  }
  if (bits == 0 && !(length == 4 && strncmp(word, "none", 4) == 0)) {
    char text[64];
    snprintf(text, sizeof text, "%.*s", static_cast<int>(length < 60 ? length : 60), word);
    Complain(variable, text, "names of families, all or none, separated by commas", config);
  }
  return remove ? mask & ~bits : mask | bits;
}

uint32_t ParseFamilies(const Variable& variable, const char* value, Config* config) {
  uint32_t mask = 0;
  bool first = true;
  while (*value != '\0') {
    size_t length = strcspn(value, ",");
    if (length > 0) mask = ApplyFamily(variable, value, length, mask, first, config);
    first = false;
    value += length;
    if (*value == ',') ++value;
  }
  return mask;
}

class Families {
 public:
  explicit Families(uint32_t standard) : standard_(standard) {}
  void Read(const Variable& variable, const char* value, uint32_t* member, Config* config) const {
    *member = value == nullptr || *value == '\0' ? standard_ : ParseFamilies(variable, value, config);
  }

 private:
  uint32_t standard_;
};

class Number {
 public:
  explicit Number(uint64_t scale = 1, uint64_t least = 0, uint64_t most = UINT64_MAX)
      : scale_(scale), least_(least), most_(most) {}
  template <typename Member>
  void Read(const Variable& variable, const char* value, Member* member, Config* config) const {
    *member = static_cast<Member>(Parse(variable, value, config) * scale_);
  }

 private:
  uint64_t Parse(const Variable& variable, const char* value, Config* config) const {
    uint64_t standard = strtoull(variable.standard, nullptr, 10);  // 0 if it is a word
    if (value == nullptr) return standard;
    char* end = nullptr;
    uint64_t number = strtoull(value, &end, 10);
    char expected[64] = "a whole number";
    bool is_number = end != value && *end == '\0' && value[0] != '-';
    if (is_number && number >= least_ && number <= most_) return number;
    if (is_number && least_ == 0) snprintf(expected, sizeof expected, "at most %lu %s", most_, variable.values);
    if (is_number && least_ != 0) snprintf(expected, sizeof expected, "%lu to %lu %s", least_, most_, variable.values);
    Complain(variable, value, expected, config);
    return standard;
  }

  uint64_t scale_;  // of the member's unit
  uint64_t least_;
  uint64_t most_;
};

// "1%", "0.5", "off".
struct Percent {
  static constexpr uint32_t kPpmOfPercent = 10000;
  static constexpr uint64_t kLeastPpm = 100;
  void Read(const Variable& variable, const char* value, Budget* member, Config* config) const {
    if (value == nullptr) *member = {kPpmOfPercent, true};
    if (value == nullptr || strcmp(value, "off") == 0) return;
    // Not strtod: the host may have set a locale with another decimal separator.
    char* end = nullptr;
    uint64_t ppm = value[0] == '-' ? 0 : strtoull(value, &end, 10);
    bool is_number = end != nullptr && end != value && ppm <= 100;
    ppm *= kPpmOfPercent;
    if (is_number && *end == '.') {
      for (uint64_t digit = kPpmOfPercent / 10; *++end >= '0' && *end <= '9'; digit /= 10) ppm += (*end - '0') * digit;
    }
    is_number = is_number && (*end == '\0' || strcmp(end, "%") == 0) && ppm >= kLeastPpm && ppm <= 100 * kPpmOfPercent;
    if (is_number) {
      *member = {static_cast<uint32_t>(ppm), false};
    } else {
      *member = {kPpmOfPercent, true};
      Complain(variable, value, "off, or a percentage from 0.01% to 100%", config);
    }
  }
};

}  // namespace

uint32_t FamilyBitOf(const char* name) {
  for (int i = 0; i < kFamilyCount; ++i) {
    if (strcmp(kFamilyNames[i], name) == 0) return 1u << i;
  }
  return 0;
}

void ParseConfig(const char* (*lookup)(const char* name), Config* config) {
  memset(config, 0, sizeof *config);
#define DLHOOK_VARIABLE(name, reader, member, values, standard, meaning) \
  (reader).Read({name, values, standard}, lookup(name), &config->member, config);
#define DLHOOK_INTERNAL_VARIABLE(name, reader, member) \
  (reader).Read({name, "", ""}, lookup(name), &config->member, config);
#include "preload/format/variables.inc"
  config->stack_families = config->stacks == StacksMode::kOff ? 0 : config->stack_families & config->families;
  if (config->stacks == StacksMode::kAll) config->python = PythonMode::kOn;
}

const char* FindUnknownVariable(char* const* environment) {
  // The second line: of this repository's scripts and tests.
  static constexpr const char* kKnown[] = {
#define DLHOOK_VARIABLE(name, reader, member, values, standard, meaning) name "=",
#define DLHOOK_REPORT_VARIABLE(name, values, standard, meaning) name "=",
#define DLHOOK_INTERNAL_VARIABLE(name, reader, member) name "=",
#include "preload/format/variables.inc"
      "DLHOOK_TEST", "DLHOOK_FAKE_", "DLHOOK_BENCH_", "DLHOOK_DOCTOR_PROBE=", "DLHOOK_SCRIPT_START="};
  for (char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    bool is_known = strncmp(*entry, "DLHOOK_", 7) != 0 || strstr(*entry, "_VENV=") != nullptr;
    for (const char* known : kKnown) is_known = is_known || strncmp(*entry, known, strlen(known)) == 0;
    if (!is_known) return *entry;
  }
  return nullptr;
}

const Config& GetConfig() {
  static Config config;
  static std::atomic<uint32_t> state{0};  // 0: unread, 1: being read, 2: ready
  if (state.load(std::memory_order_acquire) == 2) return config;
  uint32_t expected = 0;
  if (state.compare_exchange_strong(expected, 1)) {
    ParseConfig(&EnvironmentVariable, &config);
    const char* unknown = FindUnknownVariable(environ);
    if (unknown != nullptr && config.complaint[0] == '\0') {
      snprintf(config.complaint, sizeof config.complaint, "%.*s is not a variable of dlhook",
               static_cast<int>(strcspn(unknown, "=")), unknown);
    }
    state.store(2, std::memory_order_release);
  }
  while (state.load(std::memory_order_acquire) != 2) {
  }
  return config;
}

}  // namespace dlhook::inline runtime
