// Recorded readings.
#include "tests/testing_shim/counter_replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace dlhook {
namespace {

constexpr size_t kMaxFileBytes = 64 << 10;
constexpr uint32_t kMaxLines = 512;

struct ReplayLine {
  bool is_raw;
  uint64_t values[kMaxCountersOfSet];
  uint64_t enabled_ns;
  uint64_t running_ns;
};

struct Replay {
  CounterList counters;
  uint64_t mask;  // of a counter's bits
  uint32_t line_count;
  ReplayLine lines[kMaxLines];
};

Replay g_replay;
char g_file[kMaxFileBytes];

// Words of a line.
struct Words {
  char* rest;
  char* Next() { return strtok_r(nullptr, " \t\r", &rest); }
};

bool ToNumber(const char* word, uint64_t* number) {
  char* end = nullptr;
  *number = strtoull(word, &end, 10);
  return end != word && *end == '\0';
}

bool ParseNames(Words words) {
  g_replay.counters.count = 0;
  while (const char* word = words.Next()) {
    if (g_replay.counters.count == kMaxCountersOfSet || strlen(word) >= sizeof(CounterSpec::name)) return false;
    CounterSpec* spec = &g_replay.counters.counters[g_replay.counters.count++];
    *spec = {};
    snprintf(spec->name, sizeof spec->name, "%s", word);
    spec->sources = SourceBit(CounterSource::kReplay);
  }
  return g_replay.counters.count > 0;
}

bool ParseReading(Words words, bool is_raw) {
  if (g_replay.line_count == kMaxLines || g_replay.counters.count == 0) return false;
  ReplayLine* line = &g_replay.lines[g_replay.line_count++];
  *line = {};
  line->is_raw = is_raw;
  for (size_t i = 0; i < g_replay.counters.count; ++i) {
    const char* word = words.Next();
    if (word == nullptr || !ToNumber(word, &line->values[i])) return false;
  }
  const char* word = words.Next();
  if (word == nullptr) return true;
  if (strcmp(word, "enabled") != 0 || (word = words.Next()) == nullptr || !ToNumber(word, &line->enabled_ns))
    return false;
  if ((word = words.Next()) == nullptr || strcmp(word, "running") != 0) return false;
  word = words.Next();
  return word != nullptr && ToNumber(word, &line->running_ns) && words.Next() == nullptr;
}

bool ParseBits(Words words) {
  const char* word = words.Next();
  uint64_t bits = 0;
  if (word == nullptr || !ToNumber(word, &bits) || bits == 0 || bits > 64 || words.Next() != nullptr) return false;
  g_replay.mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return true;
}

bool ParseLine(char* text) {
  Words words = {nullptr};
  const char* verb = strtok_r(text, " \t\r", &words.rest);
  if (verb == nullptr || *verb == '#') return true;
  if (strcmp(verb, "counters") == 0) return ParseNames(words);
  if (strcmp(verb, "bits") == 0) return ParseBits(words);
  bool is_raw = strcmp(verb, "raw") == 0;
  return (is_raw || strcmp(verb, "add") == 0) && ParseReading(words, is_raw);
}

void Forget() {
  g_replay.counters.count = 0;
  g_replay.line_count = 0;
}

}  // namespace

bool ParseReplay(const char* text, size_t size, char* complaint, size_t complaint_size) {
  Forget();
  g_replay.mask = ~uint64_t{0};
  if (size >= sizeof g_file) size = sizeof g_file - 1;
  memmove(g_file, text, size);
  g_file[size] = '\0';
  uint32_t number = 1;
  for (char* line = g_file; line != nullptr; ++number) {
    char* end = strchr(line, '\n');
    if (end != nullptr) *end = '\0';
    if (!ParseLine(line)) {
      snprintf(complaint, complaint_size, "line %u is none of \"counters NAME…\", \"bits N\", \"add N…\", \"raw N…\"",
               number);
      Forget();
      return false;
    }
    line = end == nullptr ? nullptr : end + 1;
  }
  if (g_replay.line_count > 0) return true;
  snprintf(complaint, complaint_size, "no readings in it");
  Forget();
  return false;
}

const CounterList& ReplayedCounters() { return g_replay.counters; }

void ReadReplay(ReplayPosition* position, PerfReading* reading) {
  const ReplayLine& line = g_replay.lines[position->next];
  position->next = position->next + 1 == g_replay.line_count ? 0 : position->next + 1;
  for (size_t i = 0; i < g_replay.counters.count; ++i) {
    uint64_t more = line.is_raw ? (line.values[i] - position->raw[i]) & g_replay.mask : line.values[i];
    if (line.is_raw) position->raw[i] = line.values[i];
    position->now.values[i] += more;
  }
  position->now.enabled_ns += line.enabled_ns;
  position->now.running_ns += line.running_ns;
  *reading = position->now;
}

}  // namespace dlhook
