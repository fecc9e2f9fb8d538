// Trusts neither the files nor what the process maps: a table that does not fit gives no rules.
#include "analyzer/io/outside_code.h"

#include <sys/stat.h>
#include <sys/uio.h>

#include <fstream>
#include <iterator>

#include "analyzer/io/byte_source.h"
#include "preload/format/build_id.h"
#include "preload/python/python_frames.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr uint64_t kMaxTableBytes = 512 << 20;  // libtorch_cuda.so: 40 MB
constexpr uint64_t kMaxNoteBytes = 64 << 10;
constexpr int64_t kReadEveryNs = 10'000'000'000;
constexpr int64_t kReadAtMostEveryNs = 200'000'000;        // 1 ms each
constexpr uint8_t kUsualHeader[] = {1, 0x1b, 0x03, 0x3b};  // version; encodings: what all linkers write

std::shared_ptr<const CodeFile> OpenOnce(const std::string& path, const struct stat& info) {
  static auto& known = *new std::map<std::tuple<dev_t, ino_t, int64_t, off_t>,
                                     std::weak_ptr<const CodeFile>>;  // the launcher's one thread
  auto& place = known[{info.st_dev, info.st_ino, info.st_mtim.tv_sec, info.st_size}];
  std::shared_ptr<const CodeFile> file = place.lock();
  if (file == nullptr) place = file = CodeFile::Open(path);
  return file;
}

constexpr size_t kMostFrames = 64, kMostVisited = 256;
constexpr size_t kFrameBytes = 128, kCodeBytes = 256;
constexpr size_t kMostStacks = 1 << 14;
constexpr size_t kMostText = 1024;  // code points of a name
constexpr size_t kMostLineBytes = 1 << 20;

}  // namespace

// Uses process_vm_readv, which neither stops nor changes the other process.
size_t ProcessMemory::Copy(uint64_t address, void* to, size_t bytes) const {
  size_t copied = 0;
  while (copied < bytes) {
    iovec local = {static_cast<char*>(to) + copied, bytes - copied};
    iovec remote = {reinterpret_cast<void*>(address + copied), bytes - copied};
    const ssize_t count = process_vm_readv(pid_, &local, 1, &remote, 1, 0);
    if (count <= 0) break;
    copied += static_cast<size_t>(count);
  }
  return copied;
}

bool ParseMapsLine(absl::string_view line, MapsLine* parsed) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, absl::MaxSplits(' ', 5));
  if (parts.size() < 6) return false;
  const absl::string_view path = absl::StripLeadingAsciiWhitespace(parts[5]);
  const std::pair<absl::string_view, absl::string_view> ends = absl::StrSplit(parts[0], absl::MaxSplits('-', 1));
  parsed->is_code = absl::StrContains(parts[1], 'x');
  parsed->path = std::string(path);
  parsed->file = absl::StrCat(parts[3], " ", parts[4], " ", path);
  return absl::StartsWith(path, "/") && absl::SimpleHexAtoi(ends.first, &parsed->start) &&
         absl::SimpleHexAtoi(ends.second, &parsed->end) && absl::SimpleHexAtoi(parts[2], &parsed->offset) &&
         absl::SimpleAtoi(parts[4], &parsed->inode);
}

std::shared_ptr<const CodeFile> CodeFile::Open(const std::string& path) {
  const absl::StatusOr<ByteSource> source = ByteSource::Open(path);
  if (!source.ok()) return nullptr;
  const auto headers = ReadValues<Elf64_Ehdr>(*source, 0, 1);
  if (headers.empty() || memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0 || headers[0].e_machine != EM_X86_64 ||
      headers[0].e_phentsize != sizeof(Elf64_Phdr))
    return nullptr;
  auto file = std::make_shared<CodeFile>();
  std::optional<uint64_t> first_page;
  std::vector<Elf64_Phdr> loaded;
  Elf64_Phdr table = {};
  const auto segments = ReadValues<Elf64_Phdr>(*source, headers[0].e_phoff, headers[0].e_phnum);
  if (segments.empty()) return nullptr;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD) loaded.push_back(segment);
    if (segment.p_type == PT_LOAD && !first_page) first_page = segment.p_vaddr & ~uint64_t{4095};
    if (segment.p_type == PT_GNU_EH_FRAME) table = segment;
    if (segment.p_type == PT_NOTE && file->build_id_.empty() && segment.p_filesz <= kMaxNoteBytes) {
      const auto notes = ReadValues<uint8_t>(*source, segment.p_offset, segment.p_filesz);
      const BuildId id = BuildIdIn(notes.data(), notes.size());
      file->build_id_.assign(id.bytes, id.bytes + id.size);
    }
  }
  file->first_page_ = first_page.value_or(0);
  const auto head = ReadValues<uint8_t>(*source, table.p_offset, 12);
  if (table.p_memsz == 0 || head.empty() || memcmp(head.data(), kUsualHeader, sizeof kUsualHeader) != 0) return file;
  int32_t to_frames;
  memcpy(&to_frames, head.data() + 4, sizeof to_frames);  // from its own place
  const uint64_t frames = table.p_vaddr + 4 + static_cast<uint64_t>(int64_t{to_frames});
  for (const Elf64_Phdr& segment : loaded) {
    const uint64_t begin = std::min(frames, table.p_vaddr), end = segment.p_vaddr + segment.p_filesz;
    if (begin < segment.p_vaddr || table.p_vaddr >= end || end - begin > kMaxTableBytes) continue;
    file->bytes_ = ReadValues<uint8_t>(*source, segment.p_offset + (begin - segment.p_vaddr), end - begin);
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

// By the shim's own walk (preload/python/python_frames.h), over copies. Trusts nothing: what does not look like a frame ends it.
bool OutsidePython::ReadLayout() {
  const uint64_t code_type = view_.code_type.load(std::memory_order_acquire);
  if (code_type == 0 || code_type == code_type_) return code_type != 0;
  memcpy(&layout_, view_.layout, sizeof layout_);
  for (const uint16_t offset : {layout_.frame_previous, layout_.frame_code, layout_.frame_instruction,
                                layout_.frame_owner, uint16_t{layout_.frame_entry}}) {
    if (offset + 8u > kFrameBytes) return false;
  }
  for (const uint16_t offset : {layout_.code_file, layout_.code_name, layout_.code_first_line, layout_.code_lines}) {
    if (offset + 8u > kCodeBytes) return false;
  }
  code_type_ = code_type;
  return true;
}

// For VisitFrames.
struct OutsidePython::Frames {
  const void* PointerAt(const void* object, size_t offset) const {
    return reinterpret_cast<const void*>(
        python.Word<uint64_t>(reinterpret_cast<uint64_t>(object) + offset).value_or(0));
  }
  const char* Frame(const void* frame) {
    for (const Copy& copy : copies) {
      if (copy.frame == frame) return copy.bytes;
    }
    Copy& copy = copies[visited % std::size(copies)];
    copy.frame = nullptr;
    const bool is_read =
        ++visited <= kMostVisited && python.memory_.Read(reinterpret_cast<uint64_t>(frame), copy.bytes, kFrameBytes);
    if (is_read) copy.frame = frame;
    return is_read ? copy.bytes : nullptr;
  }
  const char* Code(const void* object) {
    code = python.CodeAt(reinterpret_cast<uint64_t>(object));
    return code == nullptr ? nullptr : code->bytes.data();
  }

  struct Copy {
    const void* frame = nullptr;
    alignas(8) char bytes[kFrameBytes];
  };
  OutsidePython& python;
  OutsidePython::Code* code = nullptr;  // of the frame that is visited
  Copy copies[2] = {};
  size_t visited = 0;
};

// Truncated; empty: not known.
const char* OutsidePython::TextAt(uint64_t string) {
  alignas(8) char head[64];
  std::string text;
  if (string != 0 && memory_.Read(string, head, sizeof head)) {
    const PythonString shape = PythonStringOf(layout_, head);
    const size_t length = std::min(shape.length, kMostText);
    std::vector<char> units(length * shape.kind);
    char encoded[4 * kMostText];
    if (shape.is_compact && shape.kind != 0 && memory_.Read(string + shape.contents, units.data(), units.size()))
      text.assign(encoded, EncodeUtf8(units.data(), length, shape.kind, encoded, sizeof encoded));
  }
  const auto known = texts_.try_emplace(std::move(text), nullptr).first;
  return known->second = known->first.c_str();
}

// Null: no code object.
OutsidePython::Code* OutsidePython::CodeAt(uint64_t address) {
  constexpr size_t kAfterCount = 8;  // its references' number, which changes
  std::vector<char> bytes(kCodeBytes);
  if (!memory_.Read(address, bytes.data(), bytes.size()) || ReadAt<uint64_t>(bytes.data(), kPyTypeOffset) != code_type_)
    return nullptr;
  Code& code = codes_[address];
  if (code.bytes.empty() ||
      memcmp(code.bytes.data() + kAfterCount, bytes.data() + kAfterCount, kCodeBytes - kAfterCount) != 0) {
    code = {};
    code.file = TextAt(ReadAt<uint64_t>(bytes.data(), layout_.code_file));
    code.function = TextAt(ReadAt<uint64_t>(bytes.data(), layout_.code_name));
    code.bytes = std::move(bytes);
  }
  return &code;
}

uint32_t OutsidePython::LineOf(Code* code, int64_t offset) {
  const auto [place, is_new] = code->lines.try_emplace(offset, 0);
  if (!is_new) return place->second;
  const auto table = ReadAt<uint64_t>(code->bytes.data(), layout_.code_lines);
  const size_t size = Word<size_t>(table + kPyBytesLength).value_or(0);
  std::vector<uint8_t> bytes(std::min(size, kMostLineBytes));
  if (!memory_.Read(table + kPyBytesData, bytes.data(), bytes.size())) return 0;
  const auto first = ReadAt<int32_t>(code->bytes.data(), layout_.code_first_line);
  return place->second = PythonLine(layout_.lines, bytes.data(), bytes.size(), first, offset);
}

bool OutsidePython::ReadFrames(uint64_t thread_state, std::vector<OutsidePythonFrame>* frames, bool* is_cut) {
  Frames memory = {.python = *this};
  const void* const first = PythonFrameOf(layout_, memory, reinterpret_cast<const void*>(thread_state));
  return VisitFrames(layout_, memory, first, [&](const void* frame, const char*, int64_t offset) {
    *is_cut = frames->size() == kMostFrames;
    if (*is_cut) return false;
    Code* const code = memory.code;
    const bool is_entry = IsEntryFrame(layout_, memory, frame);
    frames->push_back({code->file, code->function, LineOf(code, offset), is_entry});
    return true;
  });
}

// A state begins with its neighbours in the list, and somewhere has the kernel's number of its thread: where, the known one tells.
uint64_t OutsidePython::StateOf(uint32_t tid, const Known& known) {
  constexpr size_t kStateWords = 64, kMostStates = 4096;
  uint64_t state[kStateWords];
  if (known.thread_state == 0 || !memory_.Read(known.thread_state, state, sizeof state)) return 0;
  if (tid_offset_ == 0) {
    const auto* const found = std::find(state + 2, state + kStateWords, uint64_t{known.tid});
    if (found == state + kStateWords) return 0;
    tid_offset_ = static_cast<size_t>(found - state);
  }
  for (const size_t direction : {0, 1}) {
    uint64_t at = known.thread_state;
    for (size_t count = 0; at != 0 && count < kMostStates && memory_.Read(at, state, sizeof state); ++count) {
      if (state[tid_offset_] == tid) return at;
      at = state[direction];
    }
  }
  return 0;
}

uint32_t OutsidePython::StackOf(uint64_t thread_state) {
  std::vector<OutsidePythonFrame> frames;
  bool is_cut = false;
  if (thread_state == 0 || !ReadLayout() || !ReadFrames(thread_state, &frames, &is_cut) || frames.empty()) return 0;
  const auto [place, is_new] = numbers_.try_emplace({std::move(frames), is_cut}, 0);
  if (!is_new || stacks_.size() == kMostStacks) return place->second;
  const std::vector<OutsidePythonFrame>& kept = place->first.first;
  stacks_.push_back({kept.data(), static_cast<uint32_t>(kept.size()), is_cut});
  return place->second = static_cast<uint32_t>(stacks_.size());
}

}  // namespace dlhook::analyzer::io
