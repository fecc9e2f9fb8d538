// Trusts neither the files nor what the process maps: a table that does not fit gives no rules.
#include "analyzer/io/outside_code.h"

#include <elf.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/memory_reader.h"
#include "preload/format/build_id.h"
#include "preload/format/clock.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr uint64_t kMaxTableBytes = 512 << 20;  // libtorch_cuda.so: 40 MB
constexpr uint64_t kMaxNoteBytes = 64 << 10;
constexpr int64_t kReadEveryNs = 10'000'000'000;
constexpr int64_t kReadAtMostEveryNs = 200'000'000;        // 1 ms each
constexpr uint8_t kUsualHeader[] = {1, 0x1b, 0x03, 0x3b};  // version; encodings: what all linkers write

template <typename T>
bool ReadFrom(const ByteSource& file, uint64_t offset, T* to) {
  return file.Read(offset, absl::MakeSpan(reinterpret_cast<char*>(to), sizeof *to)).ok();
}

std::vector<uint8_t> ReadBytes(const ByteSource& file, uint64_t offset, uint64_t size) {
  if (offset > file.size() || size > file.size() - offset) return {};
  std::vector<uint8_t> bytes(size);
  if (!file.Read(offset, absl::MakeSpan(reinterpret_cast<char*>(bytes.data()), size)).ok()) bytes.clear();
  return bytes;
}

}  // namespace

std::shared_ptr<const CodeFile> CodeFile::Open(const std::string& path) {
  const absl::StatusOr<ByteSource> source = ByteSource::Open(path);
  Elf64_Ehdr header;
  if (!source.ok() || !ReadFrom(*source, 0, &header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_machine != EM_X86_64 || header.e_phentsize != sizeof(Elf64_Phdr))
    return nullptr;
  auto file = std::make_shared<CodeFile>();
  std::optional<uint64_t> first_page;
  std::vector<Elf64_Phdr> loaded;
  Elf64_Phdr table = {};
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr segment;
    if (!ReadFrom(*source, header.e_phoff + i * sizeof segment, &segment)) return nullptr;
    if (segment.p_type == PT_LOAD) loaded.push_back(segment);
    if (segment.p_type == PT_LOAD && !first_page) first_page = segment.p_vaddr & ~uint64_t{4095};
    if (segment.p_type == PT_GNU_EH_FRAME) table = segment;
    if (segment.p_type == PT_NOTE && file->build_id_.empty() && segment.p_filesz <= kMaxNoteBytes) {
      const std::vector<uint8_t> notes = ReadBytes(*source, segment.p_offset, segment.p_filesz);
      const BuildId id = BuildIdIn(notes.data(), notes.size());
      file->build_id_.assign(id.bytes, id.bytes + id.size);
    }
  }
  file->first_page_ = first_page.value_or(0);
  const std::vector<uint8_t> head = ReadBytes(*source, table.p_offset, 12);
  if (table.p_memsz == 0 || head.empty() || memcmp(head.data(), kUsualHeader, sizeof kUsualHeader) != 0) return file;
  int32_t to_frames;
  memcpy(&to_frames, head.data() + 4, sizeof to_frames);  // from its own place
  const uint64_t frames = table.p_vaddr + 4 + static_cast<uint64_t>(int64_t{to_frames});
  for (const Elf64_Phdr& segment : loaded) {
    const uint64_t begin = std::min(frames, table.p_vaddr), end = segment.p_vaddr + segment.p_filesz;
    if (begin < segment.p_vaddr || table.p_vaddr >= end || end - begin > kMaxTableBytes) continue;
    file->bytes_ = ReadBytes(*source, segment.p_offset + (begin - segment.p_vaddr), end - begin);
    file->table_ = table.p_vaddr - begin;
    file->table_address_ = table.p_vaddr;
  }
  return file;
}

// The whole entry is in memory, and the one that it refers to, too.
bool CodeFile::IsInside(const uint8_t* entry) const {
  const uint8_t *begin = bytes_.data(), *end = begin + bytes_.size();
  const auto is_whole = [&](const uint8_t* at) {
    uint32_t length;
    if (at < begin || at > end - 8) return false;
    memcpy(&length, at, sizeof length);
    return length >= 4 && length < 0xfffffff0 && length <= static_cast<uint64_t>(end - at) - 4;
  };
  uint32_t distance;
  if (!is_whole(entry)) return false;
  memcpy(&distance, entry + 4, sizeof distance);
  return distance <= static_cast<uint64_t>(entry + 4 - begin) && is_whole(entry + 4 - distance);
}

UnwindRule CodeFile::RuleAt(uint64_t pc, uint64_t start, uint64_t ip) const {
  const UnwindRule none = NoRule(StackCut::kNoUnwindInfo);
  if (bytes_.size() < table_ + 12) return none;
  const uint8_t* const table = bytes_.data() + table_;
  uint32_t count;
  memcpy(&count, table + 8, sizeof count);
  if (count > (bytes_.size() - table_ - 12) / 8) return none;
  // All of it is relative to places: as if the file were mapped where its bytes are.
  const uint64_t moved = pc - (start - first_page_ + table_address_) + reinterpret_cast<uint64_t>(table);
  const uint8_t* const fde = FindFde(table, moved);
  return fde != nullptr && IsInside(fde) && CoversAddress(fde, moved) ? ReadRule(fde, moved, ip) : none;
}

namespace {

std::shared_ptr<const CodeFile> OpenOnce(const std::string& path, const struct stat& info) {
  static auto& known = *new std::map<std::tuple<dev_t, ino_t, int64_t, off_t>,
                                     std::weak_ptr<const CodeFile>>;  // the launcher's one thread
  auto& place = known[{info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_size}];
  std::shared_ptr<const CodeFile> file = place.lock();
  if (file == nullptr) place = file = CodeFile::Open(path);
  return file;
}

}  // namespace

OutsideCode::Object* OutsideCode::FindKnown(uint64_t address) {
  auto after = objects_.upper_bound(address);
  if (after == objects_.begin()) return nullptr;
  Object& object = (--after)->second;
  return address < object.end ? &object : nullptr;
}

OutsideCode::Object* OutsideCode::Find(uint64_t address) {
  const auto age_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC)) - read_ns_;
  Object* found = FindKnown(address);
  const bool is_old = read_ns_ == 0 || age_ns > kReadEveryNs || (found == nullptr && age_ns > kReadAtMostEveryNs);
  if (is_old) {
    ReadMappings();
    found = FindKnown(address);
  }
  if (found != nullptr && found->file == nullptr) {
    const std::string path = absl::StrCat("/proc/", pid_, "/root", found->path);
    struct stat info;
    if (stat(path.c_str(), &info) == 0 && info.st_ino == found->inode) found->file = OpenOnce(path, info);
  }
  return found == nullptr || found->file == nullptr ? nullptr : found;
}

// A file's segments follow each other.
void OutsideCode::ReadMappings() {
  std::map<uint64_t, Object> objects;
  std::ifstream maps(absl::StrCat("/proc/", pid_, "/maps"));
  Object* last = nullptr;
  for (std::string line; std::getline(maps, line);) {
    MapsLine parsed;
    if (!ParseMapsLine(line, &parsed)) continue;
    const bool begins = parsed.offset == 0;
    if (last != nullptr && last->path == parsed.path && !begins) {
      last->end = parsed.end;
    } else if (begins) {
      last = &objects[parsed.start];
      *last = {.start = parsed.start, .end = parsed.end, .path = std::move(parsed.path), .inode = parsed.inode};
    } else {
      last = nullptr;
    }
  }
  for (auto& [start, object] : objects) {
    const auto known = objects_.find(start);
    if (known == objects_.end() || known->second.path != object.path || known->second.inode != object.inode) continue;
    object.file = known->second.file;
    object.is_told = known->second.is_told && known->second.end == object.end;
  }
  if (!objects.empty()) objects_ = std::move(objects);  // else the process is gone
  read_ns_ = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
}

}  // namespace dlhook::analyzer::io
