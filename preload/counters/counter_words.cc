// Parses words of DLHOOK_COUNTERS: names and sets of counter_names.cc, raw events, events of PMUs that the kernel
// describes in sysfs, and PAPI's.
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "preload/counters/counter_names.h"

namespace dlhook::inline counters {
namespace {

constexpr size_t kMaxWord = 160;
constexpr size_t kMaxFile = 256;
constexpr char kPmuFolder[] = "/sys/bus/event_source/devices";
constexpr uint8_t kPmuSources = SourceBit(CounterSource::kPerfRead) | SourceBit(CounterSource::kPerfRdpmc);

void Complain(CounterList* list, const char* word, const char* expected) {
  if (list->complaint[0] != '\0') return;
  snprintf(list->complaint, sizeof list->complaint, "%.60s is not understood, expected %s", word, expected);
}

void Refuse(CounterList* list, const char* word, const char* reason) {
  constexpr size_t kMost = sizeof list->refused / sizeof list->refused[0];
  if (list->refused_count >= kMost) return;
  CounterRefusal* refusal = &list->refused[list->refused_count++];
  snprintf(refusal->name, sizeof refusal->name, "%.*s", static_cast<int>(sizeof refusal->name - 1), word);
  snprintf(refusal->reason, sizeof refusal->reason, "%s", reason);
}

void RefuseOn(CounterList* list, const char* word, const char* what, const Processor& processor) {
  char reason[sizeof(CounterRefusal::reason)];  // longer ones are truncated
  snprintf(reason, sizeof reason, "%s on this processor (%s family %u model %u, %s)", what,
           processor.vendor[0] == '\0' ? "not x86," : processor.vendor, processor.family, processor.model,
           processor.core_name);
  Refuse(list, word, reason);
}

void Add(CounterList* list, const CounterSpec& spec) {
  for (size_t i = 0; i < list->count; ++i) {
    if (strcmp(list->counters[i].name, spec.name) == 0) return;
  }
  if (list->count == kMaxCounters) {
    Complain(list, spec.name, "at most 48 counters");
    return;
  }
  list->counters[list->count] = spec;
  list->counters[list->count++].sources |= SourceBit(CounterSource::kReplay);
}

// False: it does not fit, and the truncated part may be what distinguishes two counters.
bool SetName(const char* name, CounterSpec* spec) {
  const size_t length = strlen(name);
  if (length >= sizeof spec->name) return false;
  memcpy(spec->name, name, length + 1);
  return true;
}

CounterSpec SpecOf(const CounterLine& line, const char* set) {
  CounterSpec spec = {};
  SetName(line.name, &spec);
  spec.perf_type = line.type;
  spec.perf_config = line.config;
  spec.unit = UnitOf(line);
  spec.sources = line.sources;
  spec.is_in_kernel = (line.flags & kInKernel) != 0;
  spec.leads_group = (line.flags & kLeads) != 0;
  spec.needs_slots = (line.flags & kNeedsSlots) != 0;
  spec.set = set;
  return spec;
}

// ":u", ":k" at the end of a word: the modes in which it counts. False: other letters.
bool TakeModifiers(const char* text, CounterSpec* spec) {
  bool user = false, kernel = false;
  for (const char* letter = text; *letter != '\0'; ++letter) {
    if (*letter != 'u' && *letter != 'k') return false;
    (*letter == 'u' ? user : kernel) = true;
  }
  spec->exclude_user = kernel && !user;
  spec->exclude_kernel = user && !kernel;
  return true;
}

void AddSet(size_t set, const Processor& processor, CounterList* list) {
  bool has_any = false;
  for (const CounterLine& line : CounterLines()) {
    if (!IsInSet(line, set, processor)) continue;
    has_any = true;
    Add(list, SpecOf(line, kCounterSets[set].name));
  }
  if (has_any) return;
  char what[120];
  snprintf(what, sizeof what, "known for %s; there are no such events", kCounterSets[set].processors);
  RefuseOn(list, kCounterSets[set].name, what, processor);
}

// `length`: of the name without ":u" and the like.
bool IsNamed(const CounterLine& line, const char* word, size_t length) {
  const auto is = [&](const char* name) {
    return name != nullptr && strlen(name) == length && strncasecmp(name, word, length) == 0;
  };
  return is(line.name) || is(line.alias);
}

bool AddNamed(const char* word, const Processor& processor, CounterList* list) {
  const size_t length = strcspn(word, ":");
  bool is_known = false;
  for (const CounterLine& line : CounterLines()) {
    if (!IsNamed(line, word, length)) continue;
    is_known = true;
    if (!IsOn(line, processor)) continue;
    CounterSpec spec = SpecOf(line, nullptr);
    const char* modifiers = word[length] == ':' ? word + length + 1 : "";
    if (!TakeModifiers(modifiers, &spec)) {
      Complain(list, word, "u or k behind ':'");
      return true;
    }
    if (spec.exclude_user || spec.exclude_kernel) {
      snprintf(spec.name, sizeof spec.name, "%s:%c", line.name, spec.exclude_kernel ? 'u' : 'k');
      spec.sources &= kPmuSources;  // the other sources can't be restricted to a mode
      if (spec.sources == 0) {
        Complain(list, word, "its name alone: it can't be counted apart in user and kernel mode");
        return true;
      }
    }
    Add(list, spec);
    return true;
  }
  if (is_known) RefuseOn(list, word, "there is no such counter", processor);
  return is_known;
}

bool AddRaw(const char* word, CounterList* list) {
  char* end = nullptr;
  if (word[0] != 'r') return false;
  const size_t digits = strspn(word + 1, "0123456789abcdefABCDEF");
  if (digits == 0 || digits > 16 || (word[1 + digits] != '\0' && word[1 + digits] != ':')) return false;
  CounterSpec spec = {};
  spec.perf_type = PERF_TYPE_RAW;
  spec.perf_config = strtoull(word + 1, &end, 16);
  spec.sources = kPmuSources;
  const bool is_good = *end != ':' || TakeModifiers(end + 1, &spec);
  if (is_good && SetName(word, &spec)) {
    Add(list, spec);
  } else {
    Complain(list, word, "u or k behind ':'");
  }
  return true;
}

bool AddPapi(const char* word, CounterList* list) {
  if (strncmp(word, "PAPI_", 5) != 0 && strncmp(word, "papi::", 6) != 0) return false;
  CounterSpec spec = {};
  spec.perf_type = kNoPerfType;
  spec.sources = SourceBit(CounterSource::kPapi);
  if (SetName(word, &spec)) {
    Add(list, spec);
  } else {
    Complain(list, word, "a name of at most 71 letters");
  }
  return true;
}

// --- "pmu/term=value,…/modifiers", described by the kernel in PMU_FOLDER/pmu/{type,format/term,events/name} ---

bool IsPlainName(const char* text) {
  return text[0] != '\0' &&
         text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")] == '\0' &&
         text[0] != '.';
}

bool ReadOf(const char* pmu, const char* folder, const char* name, ReadSmallFile read_file, char* text) {
  char path[3 * kMaxWord];
  snprintf(path, sizeof path, "%s/%s%s/%s", kPmuFolder, pmu, folder, name);
  if (!read_file(path, text, kMaxFile)) return false;
  text[strcspn(text, "\n")] = '\0';
  return true;
}

// Puts the low bits of `value` into the bits named by "config1:0-7,32-35".
bool PlaceBits(const char* format, uint64_t value, CounterSpec* spec) {
  uint64_t* config = nullptr;
  if (strncmp(format, "config:", 7) == 0) config = &spec->perf_config;
  if (strncmp(format, "config1:", 8) == 0) config = &spec->perf_config1;
  if (strncmp(format, "config2:", 8) == 0) config = &spec->perf_config2;
  if (config == nullptr) return false;
  const char* range = strchr(format, ':') + 1;
  while (*range != '\0') {
    char* end = nullptr;
    const unsigned long first = strtoul(range, &end, 10);
    unsigned long last = first;
    if (*end == '-') last = strtoul(end + 1, &end, 10);
    if (last > 63 || first > last) return false;
    for (unsigned long bit = first; bit <= last; ++bit, value >>= 1) *config |= (value & 1) << bit;
    if (*end == ',') ++end;
    if (end == range) return false;
    range = end;
  }
  return value == 0;
}

bool ParseTerms(const char* pmu, char* terms, bool may_name_event, ReadSmallFile read_file, CounterSpec* spec);

bool ParseTerm(const char* pmu, char* term, bool may_name_event, ReadSmallFile read_file, CounterSpec* spec) {
  char* equals = strchr(term, '=');
  if (equals != nullptr) *equals = '\0';
  char text[kMaxFile];
  if (equals != nullptr && strcmp(term, "name") == 0) {
    return IsPlainName(equals + 1) && SetName(equals + 1, spec);
  }
  if (!IsPlainName(term)) return false;
  if (equals == nullptr && may_name_event && ReadOf(pmu, "/events", term, read_file, text)) {
    return ParseTerms(pmu, text, false, read_file, spec);
  }
  char* end = nullptr;
  const uint64_t value = equals == nullptr ? 1 : strtoull(equals + 1, &end, 0);
  if (equals != nullptr && (end == equals + 1 || *end != '\0')) return false;
  if (strcmp(term, "config") == 0) return (spec->perf_config = value, true);
  if (strcmp(term, "config1") == 0) return (spec->perf_config1 = value, true);
  if (strcmp(term, "config2") == 0) return (spec->perf_config2 = value, true);
  return ReadOf(pmu, "/format", term, read_file, text) && PlaceBits(text, value, spec);
}

bool ParseTerms(const char* pmu, char* terms, bool may_name_event, ReadSmallFile read_file, CounterSpec* spec) {
  char* rest = terms;
  for (char* term = strtok_r(rest, ",", &rest); term != nullptr; term = strtok_r(nullptr, ",", &rest)) {
    if (!ParseTerm(pmu, term, may_name_event, read_file, spec)) return false;
  }
  return true;
}

// `word` contains a '/'.
void AddOfPmu(const char* word, ReadSmallFile read_file, CounterList* list) {
  constexpr char kExpected[] = "pmu/term=value,…/ with terms of /sys/bus/event_source/devices/PMU/format";
  char text[kMaxWord];
  snprintf(text, sizeof text, "%s", word);
  char* terms = strchr(text, '/');
  *terms++ = '\0';
  char* close = strchr(terms, '/');
  if (close == nullptr || !IsPlainName(text)) return Complain(list, word, kExpected);
  *close = '\0';
  CounterSpec spec = {};
  char type[kMaxFile];
  if (read_file == nullptr || !ReadOf(text, "", "type", read_file, type)) {
    return Refuse(list, word, "the kernel has no such PMU in /sys/bus/event_source/devices");
  }
  spec.perf_type = static_cast<uint32_t>(strtoul(type, nullptr, 10));
  spec.sources = kPmuSources;
  const char* modifiers = close + 1 + (close[1] == ':' ? 1 : 0);
  if (!ParseTerms(text, terms, true, read_file, &spec) || !TakeModifiers(modifiers, &spec)) {
    return Complain(list, word, kExpected);
  }
  if (spec.name[0] == '\0' && !SetName(word, &spec)) return Complain(list, word, "a shorter one, or name=… in it");
  for (char* c = spec.name; *c != '\0'; ++c) {
    if (*c == ',') *c = ';';
  }
  Add(list, spec);
}

void AddWord(const char* word, const Processor& processor, ReadSmallFile read_file, CounterList* list) {
  for (size_t set = 0; set < kCounterSetCount; ++set) {
    if (strcmp(word, kCounterSets[set].name) == 0) return AddSet(set, processor, list);
  }
  if (AddPapi(word, list)) return;
  if (strchr(word, '/') != nullptr) return AddOfPmu(word, read_file, list);
  if (AddNamed(word, processor, list) || AddRaw(word, list)) return;
  Complain(
      list, word,
      "software, basic, cache, flops, topdown, a counter of `dlhook counters`, rHEX, pmu/event=…/, PAPI_… or papi::…");
}

}  // namespace

const CounterLine* FindCounterLine(const char* name) {
  for (const CounterLine& line : CounterLines()) {
    if (IsNamed(line, name, strcspn(name, ":"))) return &line;
  }
  return nullptr;
}

void ParseCounters(const char* words, const Processor& processor, ReadSmallFile read_file, CounterList* list) {
  memset(list, 0, sizeof *list);
  while (*words != '\0') {
    size_t length = 0;  // commas between slashes belong to the word
    for (bool is_inside = false; words[length] != '\0' && (is_inside || words[length] != ','); ++length) {
      if (words[length] == '/') is_inside = !is_inside;
    }
    char word[kMaxWord];
    snprintf(word, sizeof word, "%.*s", static_cast<int>(length < kMaxWord - 1 ? length : kMaxWord - 1), words);
    if (length >= kMaxWord) {
      Complain(list, word, "a shorter word");
    } else if (length > 0) {
      AddWord(word, processor, read_file, list);
    }
    words += length;
    if (*words == ',') ++words;
  }
}

}  // namespace dlhook::inline counters
