// Reads /proc/PID and the process's memory; writes and stops nothing.
#include "analyzer/doctor/process_look.h"

#include <errno.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "preload/format/build_id.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline doctor {
namespace {

// Ten times what the largest objects in use (TensorFlow's, PyTorch's, cuDNN's) need.
constexpr int kMaxSegments = 256;
constexpr uint64_t kMaxSegmentBytes = 64 << 20;  // of the dynamic section and notes
constexpr uint64_t kMaxSymbols = 8 << 20;
constexpr uint64_t kMaxStringBytes = 1 << 30;
constexpr uint64_t kMaxRelocations = 16 << 20;
constexpr uint64_t kPage = 4096;

// Allocates nothing for an array whose end is not readable.
template <typename T>
bool ReadArray(const MemoryReader& memory, uint64_t address, uint64_t count, std::vector<T>* array) {
  T last;
  if (count > 0 && !memory.Read(address + (count - 1) * sizeof(T), &last, sizeof last)) return false;
  array->resize(count);
  return count == 0 || memory.Read(address, array->data(), count * sizeof(T));
}

class ImageReader {
 public:
  ImageReader(const MemoryReader& memory, uint64_t base, const NameSet& wanted)
      : memory_(memory), base_(base), wanted_(wanted) {}

  absl::StatusOr<ElfImage> Read() {
    if (!ReadHeaders()) return absl::DataLossError("no ELF object for x86-64");
    if (!ReadDynamic()) return absl::DataLossError("the dynamic section is not whole");
    if (!ReadSymbols()) return absl::DataLossError("the dynamic symbols are not whole");
    CollectExports();
    CollectSlots(Value(DT_RELA), Value(DT_RELASZ), Value(DT_RELACOUNT));
    CollectSlots(Value(DT_JMPREL), Value(DT_PLTRELSZ), 0);
    return std::move(image_);
  }

 private:
  bool ReadHeaders() {
    Elf64_Ehdr header;
    if (!memory_.Read(base_, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64) return false;
    if (header.e_phentsize != sizeof(Elf64_Phdr) || header.e_phnum > kMaxSegments) return false;
    if (!ReadArray(memory_, base_ + header.e_phoff, header.e_phnum, &segments_)) return false;
    const auto first = absl::c_find_if(segments_, [](const Elf64_Phdr& segment) { return segment.p_type == PT_LOAD; });
    if (first == segments_.end()) return false;
    bias_ = base_ - (first->p_vaddr & ~(kPage - 1));
    image_.is_executable = header.e_type == ET_EXEC;
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_INTERP) image_.is_executable = true;
      const uint64_t start = bias_ + segment.p_vaddr;
      if (segment.p_type == PT_LOAD) image_.segments.push_back({start, start + segment.p_memsz});
      if (segment.p_type == PT_NOTE) ReadNotes(segment);
    }
    return true;
  }

  void ReadNotes(const Elf64_Phdr& segment) {
    std::vector<char> notes;
    if (segment.p_memsz > kMaxSegmentBytes || !ReadArray(memory_, bias_ + segment.p_vaddr, segment.p_memsz, &notes))
      return;
    const BuildId id = BuildIdIn(notes.data(), notes.size());
    if (id.size > 0) image_.build_id = absl::BytesToHexString({reinterpret_cast<const char*>(id.bytes), id.size});
  }

  bool ReadDynamic() {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC || segment.p_memsz > kMaxSegmentBytes) continue;
      std::vector<Elf64_Dyn> entries;
      if (!ReadArray(memory_, bias_ + segment.p_vaddr, segment.p_memsz / sizeof(Elf64_Dyn), &entries)) return false;
      for (const Elf64_Dyn& entry : entries) {
        if (entry.d_tag == DT_NULL) break;
        if (entry.d_tag == DT_NEEDED) needed_.push_back(entry.d_un.d_val);
        dynamic_.emplace(entry.d_tag, entry.d_un.d_val);
      }
      image_.is_symbolic = dynamic_.contains(DT_SYMBOLIC) || (Value(DT_FLAGS) & DF_SYMBOLIC) != 0;
      return true;
    }
    return false;  // statically linked
  }

  bool ReadSymbols() {
    // Strings first: names in the dynamic section need them even if there are no symbols.
    const uint64_t bytes = Value(DT_STRSZ);
    if (bytes > kMaxStringBytes || !ReadArray(memory_, Address(Value(DT_STRTAB)), bytes, &strings_)) return false;
    if (dynamic_.contains(DT_SONAME)) image_.soname = std::string(Name(Value(DT_SONAME)));
    for (const uint64_t name : needed_) image_.needed.emplace_back(Name(name));
    const uint64_t count = CountSymbols();
    return count <= kMaxSymbols && ReadArray(memory_, Address(Value(DT_SYMTAB)), count, &symbols_);
  }

  // DT_GNU_HASH has no number of symbols: it is one more than the end of the last chain.
  uint64_t CountSymbols() const {
    uint32_t header[4];  // buckets, first hashed symbol, words of the filter, shift
    if (const uint64_t hash = Value(DT_HASH); hash != 0) {
      return memory_.Read(Address(hash), header, 2 * sizeof(uint32_t)) ? header[1] : 0;
    }
    const uint64_t hash = Value(DT_GNU_HASH);
    if (hash == 0 || !memory_.Read(Address(hash), header, sizeof header)) return 0;
    if (header[0] > kMaxSymbols || header[2] > kMaxSymbols) return 0;
    std::vector<uint32_t> buckets;
    const uint64_t buckets_at = Address(hash) + sizeof header + uint64_t{header[2]} * sizeof(uint64_t);
    if (!ReadArray(memory_, buckets_at, header[0], &buckets)) return 0;
    uint32_t last = 0;
    for (const uint32_t bucket : buckets) last = std::max(last, bucket);
    if (last < header[1]) return header[1];  // nothing is exported: all symbols precede the first hashed one
    const uint64_t chains_at = buckets_at + uint64_t{header[0]} * sizeof(uint32_t);
    for (uint64_t symbol = last; symbol < kMaxSymbols; ++symbol) {
      uint32_t link = 0;
      if (!memory_.Read(chains_at + (symbol - header[1]) * sizeof link, &link, sizeof link)) return 0;
      if ((link & 1) != 0) return symbol + 1;
    }
    return 0;
  }

  void CollectExports() {
    for (const Elf64_Sym& symbol : symbols_) {
      const int binding = ELF64_ST_BIND(symbol.st_info);
      const int visibility = ELF64_ST_VISIBILITY(symbol.st_other);
      if (symbol.st_shndx == SHN_UNDEF || (binding != STB_GLOBAL && binding != STB_WEAK)) continue;
      if (visibility != STV_DEFAULT && visibility != STV_PROTECTED) continue;
      const absl::string_view name = Name(symbol.st_name);
      if (wanted_.contains(name)) image_.exports.push_back({std::string(name), visibility == STV_PROTECTED});
    }
  }

  void CollectSlots(uint64_t address, uint64_t bytes, uint64_t skipped) {
    const uint64_t count = bytes / sizeof(Elf64_Rela);
    if (count > kMaxRelocations || skipped >= count) return;
    std::vector<Elf64_Rela> relocations;
    if (!ReadArray(memory_, Address(address) + skipped * sizeof(Elf64_Rela), count - skipped, &relocations)) return;
    for (const Elf64_Rela& relocation : relocations) {
      const uint32_t type = ELF64_R_TYPE(relocation.r_info);
      const uint64_t index = ELF64_R_SYM(relocation.r_info);
      if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
      if (index == 0 || index >= symbols_.size() || relocation.r_addend != 0) continue;
      const Elf64_Sym& symbol = symbols_[index];
      const absl::string_view name = Name(symbol.st_name);
      if (!wanted_.contains(name)) continue;
      BoundSlot slot;
      slot.name = std::string(name);
      slot.is_weak = symbol.st_shndx == SHN_UNDEF && ELF64_ST_BIND(symbol.st_info) == STB_WEAK;
      slot.definition = symbol.st_shndx == SHN_UNDEF ? 0 : bias_ + symbol.st_value;
      if (memory_.Read(bias_ + relocation.r_offset, &slot.value, sizeof slot.value))
        image_.slots.push_back(std::move(slot));
    }
  }

  uint64_t Value(int64_t tag) const {
    const auto found = dynamic_.find(tag);
    return found == dynamic_.end() ? 0 : found->second;
  }
  // glibc relocates most addresses in the dynamic section in place, except if the section is read-only.
  uint64_t Address(uint64_t value) const { return image_.Contains(value) ? value : value + bias_; }
  absl::string_view Name(uint64_t offset) const {
    if (offset >= strings_.size()) return {};
    return {strings_.data() + offset, strnlen(strings_.data() + offset, strings_.size() - offset)};
  }

  const MemoryReader& memory_;
  const uint64_t base_;
  const NameSet& wanted_;
  ElfImage image_;
  uint64_t bias_ = 0;
  std::vector<Elf64_Phdr> segments_;
  std::map<int64_t, uint64_t> dynamic_;
  std::vector<uint64_t> needed_;  // places of names
  std::vector<Elf64_Sym> symbols_;
  std::vector<char> strings_;
};

constexpr std::array<absl::string_view, 7> kWantedVariables = {"LD_PRELOAD",
                                                               "LD_AUDIT",
                                                               "CUDA_INJECTION64_PATH",
                                                               "NVTX_INJECTION64_PATH",
                                                               "NSYS_PROFILING_SESSION_ID",
                                                               "CUDA_MPS_PIPE_DIRECTORY",
                                                               "DLHOOK_CAPTURE"};

absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) return absl::ErrnoToStatus(errno == 0 ? EACCES : errno, path);
  return text.str();
}

std::map<std::string, std::string> WantedVariables(absl::string_view environment) {
  std::map<std::string, std::string> variables;
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    const bool is_wanted = absl::c_linear_search(kWantedVariables, parts.first);
    if (is_wanted && !parts.second.empty()) variables.emplace(parts.first, parts.second);
  }
  return variables;
}

bool IsSameFile(const std::string& path, const std::string& other) {
  std::error_code error;
  return path == other || (std::filesystem::equivalent(path, other, error) && !error);
}

// Objects in every process that neither export nor call hooked functions.
bool IsLoaderOrLibc(absl::string_view path) {
  const absl::string_view name = path.substr(path.rfind('/') + 1);
  return absl::StartsWith(name, "ld-linux") || absl::StartsWith(name, "libc.so.");
}

}  // namespace

// Program headers -> dynamic section -> symbols and relocations, all through MemoryReader.
bool ElfImage::Contains(uint64_t address) const {
  return absl::c_any_of(segments, [address](const AddressRange& range) { return range.Contains(address); });
}

absl::StatusOr<ElfImage> ReadElfImage(const MemoryReader& memory, uint64_t base, const NameSet& wanted) {
  return ImageReader(memory, base, wanted).Read();
}

std::vector<MappedFile> MappedFiles(absl::string_view maps) {
  struct Group {
    MappedFile file;
    std::string key;
    bool has_code = false;
  };
  std::vector<Group> groups;
  for (absl::string_view line : absl::StrSplit(maps, '\n')) {
    MapsLine parsed;
    if (!ParseMapsLine(line, &parsed)) continue;
    if (parsed.offset == 0 && (groups.empty() || groups.back().key != parsed.file || groups.back().has_code)) {
      groups.push_back(
          {{std::string(absl::StripSuffix(parsed.path, " (deleted)")), parsed.start}, parsed.file, parsed.is_code});
      continue;
    }
    const auto group = std::find_if(groups.rbegin(), groups.rend(),
                                    [&](const Group& candidate) { return candidate.key == parsed.file; });
    if (group != groups.rend()) group->has_code = group->has_code || parsed.is_code;
  }
  std::vector<MappedFile> files;
  for (Group& group : groups) {
    if (group.has_code) files.push_back(std::move(group.file));
  }
  return files;
}

const LoadedObject* ProcessLook::ObjectAt(uint64_t address) const {
  for (const LoadedObject& object : objects) {
    if (object.image.Contains(address)) return &object;
  }
  return nullptr;
}

HookedNames::HookedNames() : all_({"getenv", "dlsym"}) {
  for (int i = 0; i < kHookCount; ++i) all_.emplace(kHookNames[i].name);
}

std::string HookedNames::FamilyOf(const std::string& name) {
  const int hook = FindHook(name.c_str());
  return hook < 0 ? "" : kFamilyNames[kHookNames[hook].family];
}

absl::StatusOr<ProcessLook> LookInto(pid_t pid, pid_t thread, const std::string& shim_path, const HookedNames& names) {
  const std::string folder = absl::StrCat("/proc/", thread);
  ProcessLook look;
  look.pid = pid;
  std::error_code error;
  look.program = std::filesystem::read_symlink(folder + "/exe", error).string();
  const absl::StatusOr<std::string> maps = ReadProcFile(folder + "/maps");
  if (!maps.ok()) return maps.status();
  if (const absl::StatusOr<std::string> environment = ReadProcFile(folder + "/environ"); environment.ok()) {
    look.environment = WantedVariables(*environment);
  }
  const ProcessMemory memory(thread);
  const std::vector<MappedFile> files = MappedFiles(*maps);
  for (const MappedFile& file : files) {
    absl::StatusOr<ElfImage> image = ReadElfImage(memory, file.base, names.all());
    if (!image.ok()) continue;  // another kind of file with executable pages, or a statically linked program
    if (IsSameFile(file.path, shim_path)) look.shim = look.objects.size();
    look.objects.push_back({file.path, file.base, *std::move(image)});
    if (IsLoaderOrLibc(file.path)) look.objects.back().image.slots.clear();
  }
  char byte = 0;
  if (!files.empty() && !memory.Read(files.front().base, &byte, 1)) {
    if (errno == ESRCH) return absl::NotFoundError("the process ended meanwhile");
    if (look.objects.empty()) {
      return absl::PermissionDeniedError(
          absl::StrCat("the memory of process ", pid, " can't be read: ", strerror(errno)));
    }
  }
  return look;
}

}  // namespace dlhook::analyzer::doctor
