// Trusts nothing in the process: what is no list, or no object file, gives no names. A list is changed while it is read;
// what was missed is found at the next look.
#include "analyzer/io/jit_names.h"

#include <elf.h>
#include <fcntl.h>

#include <fstream>

#include "analyzer/io/byte_source.h"
#include "analyzer/io/outside_code.h"
#include "preload/format/folders.h"
#include "preload/format/identity.h"

namespace dlhook::analyzer::inline io {
namespace {

constexpr char kDescriptor[] = "__jit_debug_descriptor";
constexpr int64_t kSecond = 1000 * 1000 * 1000;
constexpr int64_t kOftenFor = 60 * kSecond;
constexpr int64_t kLook = kSecond / 20, kLookLater = kSecond / 2;                  // 2 us, where nothing is new
constexpr int64_t kLookForFiles = kSecond / 4, kLookForFilesLater = 10 * kSecond;  // 1 ms: reads all mappings
constexpr size_t kMaxObjects = 100'000;                                            // of one look
constexpr uint64_t kMaxObjectBytes = 64 << 20;
constexpr uint64_t kMaxMapBytes = 256 << 20;

struct Descriptor {  // as in the process's memory
  uint32_t version;
  uint32_t action;
  uint64_t relevant;
  uint64_t first;
};

// The values of type T at `offset`, where they are within `bytes`.
template <typename T>
std::vector<T> ArrayAt(absl::string_view bytes, uint64_t offset, uint64_t count) {
  if (offset > bytes.size() || count > (bytes.size() - offset) / sizeof(T)) return {};
  std::vector<T> values(count);
  if (count > 0) memcpy(values.data(), bytes.data() + offset, count * sizeof(T));
  return values;
}

bool IsOurs(const Elf64_Ehdr& header) {
  return memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64 &&
         header.e_machine == EM_X86_64 && header.e_shentsize == sizeof(Elf64_Shdr);
}

// Tables are hundreds of megabytes in some libraries: a piece of a section at a time, until `take` has what it wants. Pieces share
// `overlap` bytes.
bool ForEachPiece(const ByteSource& file, const Elf64_Shdr& section, size_t overlap,
                  const std::function<bool(uint64_t offset, absl::string_view piece)>& take) {
  constexpr uint64_t kPiece = 24 << 15;  // whole symbols
  if (section.sh_offset > file.size() || section.sh_size > file.size() - section.sh_offset) return false;
  std::vector<char> piece(kPiece + overlap);
  for (uint64_t at = 0; at < section.sh_size; at += kPiece) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(piece.size(), section.sh_size - at));
    if (!file.Read(section.sh_offset + at, absl::MakeSpan(piece.data(), bytes)).ok()) return false;
    if (take(at, {piece.data(), bytes})) return true;
  }
  return false;
}

// The value of the symbol that is called `name`.
std::optional<uint64_t> ValueIn(const ByteSource& file, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                                absl::string_view name) {
  const std::string wanted = absl::StrCat(absl::string_view("\0", 1), name, absl::string_view("\0", 1));
  uint64_t name_at = 0;
  std::optional<uint64_t> value;
  const bool has_name = ForEachPiece(file, strings, wanted.size(), [&](uint64_t offset, absl::string_view piece) {
    const void* found = memmem(piece.data(), piece.size(), wanted.data(), wanted.size());
    if (found != nullptr) name_at = offset + static_cast<uint64_t>(static_cast<const char*>(found) - piece.data()) + 1;
    return found != nullptr;
  });
  if (!has_name) return std::nullopt;  // of nearly all files: their symbols are not read
  ForEachPiece(file, table, 0, [&](uint64_t, absl::string_view piece) {
    for (const Elf64_Sym& symbol : ArrayAt<Elf64_Sym>(piece, 0, piece.size() / sizeof(Elf64_Sym))) {
      if (symbol.st_name == name_at && symbol.st_shndx != SHN_UNDEF) value = symbol.st_value;
    }
    return value.has_value();
  });
  return value;
}

}  // namespace

std::optional<uint64_t> OffsetOfJitDescriptor(const std::string& path) {
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  if (!file.ok()) return std::nullopt;
  const auto headers = ReadValues<Elf64_Ehdr>(*file, 0, 1);
  if (headers.empty() || !IsOurs(headers[0]) || headers[0].e_phentsize != sizeof(Elf64_Phdr)) return std::nullopt;
  const auto segments = ReadValues<Elf64_Phdr>(*file, headers[0].e_phoff, headers[0].e_phnum);
  const auto first = std::ranges::find(segments, Elf64_Word{PT_LOAD}, &Elf64_Phdr::p_type);
  if (first == segments.end()) return std::nullopt;
  const auto sections = ReadValues<Elf64_Shdr>(*file, headers[0].e_shoff, headers[0].e_shnum);
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {  // the first has all of the other's
    for (const Elf64_Shdr& section : sections) {
      if (section.sh_type != type || section.sh_link >= sections.size()) continue;
      const auto value = ValueIn(*file, section, sections[section.sh_link], kDescriptor);
      return value ? std::optional(*value - (first->p_vaddr & ~uint64_t{4095})) : std::nullopt;
    }
  }
  return std::nullopt;
}

std::string PerfMapOfObject(absl::string_view object) {
  std::string lines;
  const auto headers = ArrayAt<Elf64_Ehdr>(object, 0, 1);
  if (headers.empty() || !IsOurs(headers[0])) return lines;
  const auto sections = ArrayAt<Elf64_Shdr>(object, headers[0].e_shoff, headers[0].e_shnum);
  const bool is_relocatable = headers[0].e_type == ET_REL;
  for (const Elf64_Shdr& table : sections) {
    if (table.sh_type != SHT_SYMTAB || table.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[table.sh_link];
    if (strings.sh_offset > object.size()) continue;
    const absl::string_view names = object.substr(strings.sh_offset, strings.sh_size);
    for (const auto& symbol : ArrayAt<Elf64_Sym>(object, table.sh_offset, table.sh_size / sizeof(Elf64_Sym))) {
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0 || symbol.st_shndx >= sections.size() ||
          symbol.st_name >= names.size())
        continue;
      const uint64_t section = sections[symbol.st_shndx].sh_addr;
      if (section == 0) continue;  // in no memory
      const absl::string_view name = names.substr(symbol.st_name, names.find('\0', symbol.st_name) - symbol.st_name);
      if (name.empty() || name.find('\n') != absl::string_view::npos) continue;
      absl::StrAppendFormat(&lines, "%x %x %s\n", symbol.st_value + (is_relocatable ? section : 0), symbol.st_size,
                            name);
    }
  }
  return lines;
}

JitNames::JitNames(const SessionHeader& session, std::string trace_name) : trace_name_(std::move(trace_name)) {
  if (session.pid_namespace != PidNamespace() || session.sample_interval_ns == 0) return;
  pid_ = session.pid;
  first_ns_ = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
}

void JitNames::Step(const RunFolder& folder) {
  if (pid_ == 0) return;
  const auto now_ns = static_cast<int64_t>(ClockNanoseconds(CLOCK_MONOTONIC));
  if (now_ns < next_ns_) return;
  next_ns_ = now_ns + (now_ns - first_ns_ < kOftenFor ? kLook : kLookLater);
  if (now_ns >= next_files_ns_) {  // soon again while the program loads libraries
    files_wait_ns_ = FindDescriptors() ? kLookForFiles : std::min(2 * files_wait_ns_, kLookForFilesLater);
    next_files_ns_ = now_ns + files_wait_ns_;
  }
  for (const uint64_t descriptor : descriptors_) Append(folder, NewFunctions(descriptor));
}

// Each file is looked into once, when it is mapped for the first time.
bool JitNames::FindDescriptors() {
  bool has_new = false;
  std::ifstream maps(absl::StrCat("/proc/", pid_, "/maps"));
  for (std::string line; std::getline(maps, line);) {
    MapsLine parsed;
    if (!ParseMapsLine(line, &parsed) || parsed.offset != 0 || !files_.insert(parsed.path).second) continue;
    has_new = true;
    const auto offset = OffsetOfJitDescriptor(absl::StrCat("/proc/", pid_, "/root", parsed.path));
    if (offset) descriptors_.push_back(parsed.start + *offset);
  }
  return has_new;
}

// The list begins with the object that came last: the first one that is known ends what is new.
std::string JitNames::NewFunctions(uint64_t descriptor) {
  const ProcessMemory memory(static_cast<pid_t>(pid_));
  Descriptor head;
  if (!memory.Read(descriptor, &head, sizeof head) || head.version != 1) return "";
  std::vector<std::string> found;
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> taken;
  Object object;
  for (uint64_t at = head.first; at != 0 && taken.size() < kMaxObjects; at = object.next) {
    if (!memory.Read(at, &object, sizeof object)) break;
    const std::pair contents(object.address, object.bytes);
    const auto known = known_.find(at);
    if ((known != known_.end() && known->second == contents) || !taken.emplace(at, contents).second) break;
    if (object.bytes > kMaxObjectBytes) continue;
    std::string bytes(object.bytes, '\0');
    if (memory.Read(object.address, bytes.data(), bytes.size())) found.push_back(PerfMapOfObject(bytes));
  }
  for (const auto& [at, contents] : taken) known_[at] = contents;
  std::string lines;  // in the order in which they came: of two functions in one place the last one counts
  for (auto functions = found.rbegin(); functions != found.rend(); ++functions) lines += *functions;
  return lines;
}

void JitNames::Append(const RunFolder& folder, absl::string_view lines) {
  if (lines.empty() || written_ > kMaxMapBytes) return;
  written_ += lines.size();
  const std::string name = absl::StrCat(absl::StripSuffix(trace_name_, kTraceSuffix), kJitFolderSuffix);
  mkdirat(folder.fd(), name.c_str(), 0700);
  const int place = openat(folder.fd(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (place < 0) return;
  const int file = openat(place, absl::StrCat("perf-", pid_, ".map").c_str(),
                          O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
  close(place);
  if (file < 0) return;
  WriteAll(file, lines);
  close(file);
}

}  // namespace dlhook::analyzer::io
