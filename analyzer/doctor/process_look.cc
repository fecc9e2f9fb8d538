// Reads /proc/PID, the files of its objects (by libelf) and its memory; writes and stops nothing.
#include "analyzer/doctor/process_look.h"

#include <errno.h>
#include <gelf.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/escaping.h"
#include "analyzer/symbols/elf_object.h"
#include "preload/format/hook_table.h"

namespace dlhook::analyzer::inline doctor {
namespace {

std::string TextAt(Elf* elf, size_t strings, size_t offset) {
  const char* const text = elf_strptr(elf, strings, offset);
  return text == nullptr ? "" : text;
}

void AddSegments(Elf* elf, uint64_t bias, ElfImage* image) {
  size_t count = 0;
  GElf_Phdr segment;
  if (elf_getphdrnum(elf, &count) != 0) return;
  for (int i = 0; i < static_cast<int>(count) && gelf_getphdr(elf, i, &segment) != nullptr; ++i) {
    const uint64_t start = bias + segment.p_vaddr;
    if (segment.p_type == PT_INTERP) image->is_executable = true;
    if (segment.p_type == PT_LOAD) image->segments.push_back({start, start + segment.p_memsz});
  }
}

void AddDynamic(Elf* elf, Elf_Data* entries, size_t strings, ElfImage* image) {
  GElf_Dyn entry;
  for (int i = 0; gelf_getdyn(entries, i, &entry) != nullptr && entry.d_tag != DT_NULL; ++i) {
    const bool has_flag = entry.d_tag == DT_FLAGS && (entry.d_un.d_val & DF_SYMBOLIC) != 0;
    if (entry.d_tag == DT_SYMBOLIC || has_flag) image->is_symbolic = true;
    if (entry.d_tag == DT_SONAME) image->soname = TextAt(elf, strings, entry.d_un.d_val);
    if (entry.d_tag == DT_NEEDED) image->needed.push_back(TextAt(elf, strings, entry.d_un.d_val));
  }
}

void AddExports(Elf* elf, Elf_Data* symbols, size_t strings, const NameSet& wanted, ElfImage* image) {
  GElf_Sym symbol;
  for (int i = 0; gelf_getsym(symbols, i, &symbol) != nullptr; ++i) {
    const int binding = GELF_ST_BIND(symbol.st_info);
    const int visibility = GELF_ST_VISIBILITY(symbol.st_other);
    if (symbol.st_shndx == SHN_UNDEF || (binding != STB_GLOBAL && binding != STB_WEAK)) continue;
    if (visibility != STV_DEFAULT && visibility != STV_PROTECTED) continue;
    std::string name = TextAt(elf, strings, symbol.st_name);
    if (wanted.contains(name)) image->exports.push_back({std::move(name), visibility == STV_PROTECTED});
  }
}

// Values are those in memory.
void AddSlots(Elf* elf, Elf_Data* relocations, Elf_Scn* symbols, uint64_t bias, const MemoryReader& memory,
              const NameSet& wanted, ElfImage* image) {
  GElf_Shdr header;
  GElf_Rela relocation;
  GElf_Sym symbol;
  if (gelf_getshdr(symbols, &header) == nullptr || header.sh_type != SHT_DYNSYM) return;
  for (int i = 0; gelf_getrela(relocations, i, &relocation) != nullptr; ++i) {
    const uint64_t type = GELF_R_TYPE(relocation.r_info);
    const auto index = static_cast<int>(GELF_R_SYM(relocation.r_info));
    if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64) continue;
    if (index == 0 || relocation.r_addend != 0 || gelf_getsym(elf_getdata(symbols, nullptr), index, &symbol) == nullptr)
      continue;
    const bool is_elsewhere = symbol.st_shndx == SHN_UNDEF;
    BoundSlot slot = {.name = TextAt(elf, header.sh_link, symbol.st_name),
                      .definition = is_elsewhere ? 0 : bias + symbol.st_value,
                      .is_weak = is_elsewhere && GELF_ST_BIND(symbol.st_info) == STB_WEAK};
    if (wanted.contains(slot.name) && memory.Read(bias + relocation.r_offset, &slot.value, sizeof slot.value))
      image->slots.push_back(std::move(slot));
  }
}

absl::StatusOr<std::string> ReadProcFile(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) return absl::ErrnoToStatus(errno == 0 ? EACCES : errno, path);
  return text.str();
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

bool ElfImage::Contains(uint64_t address) const {
  return absl::c_any_of(segments, [=](const auto& part) { return part.first <= address && address < part.second; });
}

absl::StatusOr<ElfImage> ReadElfImage(const std::string& path, uint64_t base, const MemoryReader& memory,
                                      const NameSet& wanted) {
  const ElfObject object(path, "");
  GElf_Ehdr file;
  if (!object.refusal().empty()) return absl::NotFoundError(object.refusal());
  Elf* const elf = object.elf();
  if (gelf_getehdr(elf, &file) == nullptr || file.e_machine != EM_X86_64)
    return absl::DataLossError("no ELF object for x86-64");
  const uint64_t bias = base - object.first_address();
  ElfImage image = {.build_id = absl::BytesToHexString(object.build_id()), .is_executable = file.e_type == ET_EXEC};
  AddSegments(elf, bias, &image);
  bool is_dynamic = false;
  for (Elf_Scn* section = elf_nextscn(elf, nullptr); section != nullptr; section = elf_nextscn(elf, section)) {
    GElf_Shdr header;
    Elf_Data* const data = gelf_getshdr(section, &header) == nullptr ? nullptr : elf_getdata(section, nullptr);
    if (data == nullptr) continue;
    is_dynamic = is_dynamic || header.sh_type == SHT_DYNAMIC;
    if (header.sh_type == SHT_DYNAMIC) AddDynamic(elf, data, header.sh_link, &image);
    if (header.sh_type == SHT_DYNSYM) AddExports(elf, data, header.sh_link, wanted, &image);
    if (header.sh_type == SHT_RELA) AddSlots(elf, data, elf_getscn(elf, header.sh_link), bias, memory, wanted, &image);
  }
  if (!is_dynamic) return absl::DataLossError("it is linked statically");
  return image;
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

const NameSet& ExportedNames() {
  static const NameSet& kNames = *[] {
    auto* const names = new NameSet{"getenv", "dlsym"};
    for (int i = 0; i < kHookCount; ++i) names->emplace(kHookNames[i].name);
    return names;
  }();
  return kNames;
}

std::string FamilyOf(const std::string& name) {
  const int hook = FindHook(name.c_str());
  return hook < 0 ? "" : kFamilyNames[kHookNames[hook].family];
}

absl::StatusOr<ProcessLook> LookInto(pid_t pid, pid_t thread, const std::string& shim_path) {
  const std::string folder = absl::StrCat("/proc/", thread);
  ProcessLook look;
  look.pid = pid;
  std::error_code error;
  look.program = std::filesystem::read_symlink(folder + "/exe", error).string();
  const absl::StatusOr<std::string> maps = ReadProcFile(folder + "/maps");
  if (!maps.ok()) return maps.status();
  if (const absl::StatusOr<std::string> environment = ReadProcFile(folder + "/environ"); environment.ok()) {
    for (absl::string_view entry : absl::StrSplit(*environment, '\0')) {
      if (absl::ConsumePrefix(&entry, "LD_PRELOAD=")) look.preload = std::string(entry);
    }
  }
  const ProcessMemory memory(thread);
  const std::vector<MappedFile> files = MappedFiles(*maps);
  for (const MappedFile& file : files) {
    absl::StatusOr<ElfImage> image = ReadElfImage(folder + "/root" + file.path, file.base, memory, ExportedNames());
    if (!image.ok()) continue;  // another kind of file with executable pages, or it is gone
    if (IsSameFile(file.path, shim_path)) look.shim = look.objects.size();
    look.objects.push_back({file.path, *std::move(image)});
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
