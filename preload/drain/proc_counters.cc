// Files of /proc.
#include "preload/drain/proc_counters.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace dlhook {
namespace {

bool NumberAfter(const char* text, const char* key, uint64_t* number) {
  const char* found = strstr(text, key);
  if (found == nullptr) return false;
  *number = strtoull(found + strlen(key), nullptr, 10);
  return true;
}

int OpenFile(uint32_t pid, uint32_t tid, ProcFile which) {
  static const char* const kNames[kProcFileCount] = {"schedstat", "stat", "status", "sched"};
  char path[64];
  const char* name = kNames[static_cast<uint32_t>(which)];
  if (tid == 0) {
    snprintf(path, sizeof path, "/proc/%u/%s", pid, name);
  } else {
    snprintf(path, sizeof path, "/proc/%u/task/%u/%s", pid, tid, name);
  }
  return open(path, O_RDONLY | O_CLOEXEC);
}

}  // namespace

bool ParseSchedstat(const char* text, uint64_t* task_clock_ns) {
  char* end = nullptr;
  *task_clock_ns = strtoull(text, &end, 10);
  return end != text && *end == ' ';
}

// "4711 (a name) may) be anything) S 1 …": fields are counted from the last parenthesis.
bool ParseStat(const char* text, ProcStat* stat) {
  const char* at = strrchr(text, ')');
  if (at == nullptr) return false;
  uint64_t fields[23] = {};
  uint32_t field = 2;
  for (++at; *at == ' ' && field < 22;) {
    ++at;
    fields[++field] = strtoull(at, nullptr, 10);
    while (*at != '\0' && *at != ' ') ++at;
  }
  *stat = {fields[10], fields[12], fields[14] + fields[15], fields[22]};
  return field == 22;
}

bool ParseSwitches(const char* text, uint64_t* voluntary, uint64_t* involuntary) {
  return NumberAfter(text, "\nvoluntary_ctxt_switches:", voluntary) &&
         NumberAfter(text, "\nnonvoluntary_ctxt_switches:", involuntary);
}

bool ParseMigrations(const char* text, uint64_t* migrations) {
  const char* line = strstr(text, "nr_migrations ");
  const char* colon = line == nullptr ? nullptr : strchr(line, ':');
  if (colon != nullptr) *migrations = strtoull(colon + 1, nullptr, 10);
  return colon != nullptr;
}

void StartProcFiles(uint32_t pid, uint32_t tid, bool stays_open, ProcFiles* files) {
  *files = {pid, tid, stays_open, {-1, -1, -1, -1}};
}

void CloseProcFiles(ProcFiles* files) {
  for (int& fd : files->fds) {
    if (fd >= 0) close(fd);
    fd = -1;
  }
}

bool ReadProcFile(ProcFiles* files, ProcFile which, char* text, uint32_t size) {
  int* kept = &files->fds[static_cast<uint32_t>(which)];
  int fd = *kept >= 0 ? *kept : OpenFile(files->pid, files->tid, which);
  ssize_t bytes = fd < 0 ? -1 : pread(fd, text, size - 1, 0);
  text[bytes < 0 ? 0 : bytes] = '\0';
  if (files->stays_open) {
    *kept = fd;
  } else if (fd >= 0) {
    close(fd);
  }
  return bytes > 0;
}

}  // namespace dlhook
