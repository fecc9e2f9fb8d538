// File format: a line that names the format, a checksum, the key, then (address, frames) until the end.
#include "analyzer/symbols/symbol_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/io/whole_file.h"

namespace dlhook::analyzer::inline symbols {
namespace {

namespace fs = std::filesystem;

// Change the number whenever the same files give other names.
constexpr absl::string_view kFormat = "dlhook symbols 1\n";
constexpr absl::string_view kSuffix = ".symbols";
constexpr size_t kChecksumBytes = 8;
constexpr uint64_t kMaxCacheFileBytes = 64 << 20;
constexpr uint64_t kMaxFolderBytes = 256 << 20;

}  // namespace

// FNV-1a, because files are damaged by full disks and killed processes, not by attackers.
uint64_t ChecksumOf(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash;
}

SymbolCache::SymbolCache(const std::string& folder, const std::string& name, const std::string& key)
    : folder_(name.empty() ? "" : folder), name_(absl::StrCat(name, kSuffix)), key_(key) {
  if (!folder_.empty()) Read();
}

void SymbolCache::Read() {
  const std::string path = absl::StrCat(folder_, "/", name_);
  const absl::StatusOr<std::string> bytes = ReadWholeFile(path, kMaxCacheFileBytes, FileIs::kFound);
  if (!bytes.ok() || !Parse(*bytes)) return answers_.clear();
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // mark as used
}

bool SymbolCache::Parse(absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kFormat) || bytes.size() < kFormat.size() + kChecksumBytes) return false;
  bytes.remove_prefix(kFormat.size());
  uint64_t checksum = 0;
  memcpy(&checksum, bytes.data(), kChecksumBytes);
  bytes.remove_prefix(kChecksumBytes);
  if (checksum != ChecksumOf(bytes)) return false;
  FrameReader reader(bytes);
  if (reader.Text() != key_) return false;
  while (reader.ok() && !reader.done()) {
    const uint64_t address = reader.Number();
    answers_[address] = reader.Frames();
  }
  return reader.ok();
}

const SymbolFrames* SymbolCache::Find(uint64_t address) const {
  const auto place = answers_.find(address);
  return place == answers_.end() ? nullptr : &place->second;
}

void SymbolCache::Add(uint64_t address, const SymbolFrames& frames) {
  if (!folder_.empty()) answers_[address] = frames;
}

void SymbolCache::Write() {
  if (folder_.empty()) return;
  std::string body;
  AppendText(key_, &body);
  for (const auto& [address, frames] : answers_) {
    AppendNumber(address, &body);
    AppendFrames(frames, &body);
  }
  if (body.size() > kMaxCacheFileBytes) return;
  std::error_code ignored;
  fs::create_directories(folder_, ignored);
  const uint64_t checksum = ChecksumOf(body);
  ReplaceFile(absl::StrCat(folder_, "/", name_),
              absl::StrCat(kFormat, absl::string_view(reinterpret_cast<const char*>(&checksum), kChecksumBytes), body))
      .IgnoreError();
  TrimCache(folder_, kMaxFolderBytes);
}

void TrimCache(const std::string& folder, uint64_t max_bytes) {
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code gone;
    if (!absl::StrContains(at->path().filename().string(), kSuffix))
      continue;  // someone else's; drafts of killed processes are ours
    Entry entry = {at->last_write_time(gone), 0, at->path()};
    if (!gone) entry.bytes = at->file_size(gone);
    if (gone) continue;
    bytes += entry.bytes;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& left, const Entry& right) { return left.used < right.used; });
  for (size_t i = 0; i < entries.size() && bytes > max_bytes; ++i) {
    if (fs::remove(entries[i].path, error)) bytes -= entries[i].bytes;
  }
}

}  // namespace dlhook::analyzer::symbols
