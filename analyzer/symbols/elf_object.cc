#include "analyzer/symbols/elf_object.h"

#include <elf.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>

#include "absl/strings/escaping.h"

namespace dlhook::analyzer::inline symbols {
namespace {

constexpr char kDebugFolder[] = "/usr/lib/debug";
constexpr size_t kBuildIdBytesOfRun = 20;

// "/usr/lib/debug/.build-id/ab/cdef….debug"
std::string DebugFileOf(const std::string& build_id) {
  const std::string hex = absl::BytesToHexString(build_id);
  if (hex.size() < 4) return "";
  return absl::StrCat(kDebugFolder, "/.build-id/", hex.substr(0, 2), "/", hex.substr(2), ".debug");
}

std::string BuildIdOf(Elf* elf) {
  const void* bytes = nullptr;
  const ssize_t size = dwelf_elf_gnu_build_id(elf, &bytes);
  return size <= 0 ? "" : std::string(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

// The address of the file's first page in memory, relative to the addresses in the file.
uint64_t FirstAddressOf(Elf* elf) {
  constexpr uint64_t kPage = 4096;
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return 0;
  uint64_t first = std::numeric_limits<uint64_t>::max();
  for (size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) != nullptr && header.p_type == PT_LOAD)
      first = std::min(first, header.p_vaddr);
  }
  return first == std::numeric_limits<uint64_t>::max() ? 0 : first & ~(kPage - 1);
}

bool IsVdso(const std::string& path) {
  return path == "[vdso]" || absl::StrContains(path, "linux-vdso.so") || absl::StrContains(path, "linux-gate.so");
}

std::string StateOf(const std::string& path) {
  struct stat status;
  if (path.empty() || stat(path.c_str(), &status) != 0) return "-";
  return absl::StrCat(status.st_size, ",", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec);
}

bool SameBuild(const std::string& of_file, const std::string& of_run) {
  return of_file.substr(0, kBuildIdBytesOfRun) == of_run;
}

}  // namespace

ElfObject::ElfObject(const std::string& path, const std::string& build_id) {
  elf_version(EV_CURRENT);
  if (IsVdso(path)) {
    OpenVdso();
    if (elf_ == nullptr) refusal_ = "the kernel's code in this process can't be read";
  } else if (!absl::StartsWith(path, "/")) {
    refusal_ = "it was loaded by a relative path";
  } else if (!Open(path)) {
    refusal_ = errno != 0 ? strerror(errno) : "it is no ELF file, or not a whole one";
  }
  if (refusal_.empty() && !build_id.empty() && !SameBuild(build_id_, build_id)) {
    refusal_ = IsVdso(path) ? "the machine runs another kernel now"
               : build_id_.empty()
                   ? absl::StrCat("the file was replaced: it has no build-id, that of the run is ",
                                  absl::BytesToHexString(build_id))
                   : absl::StrCat("the file was replaced: its build-id is ", absl::BytesToHexString(build_id_),
                                  ", that of the run is ", absl::BytesToHexString(build_id));
  }
  if (!refusal_.empty() && OpenDebugFile(build_id)) {
    remark_ = absl::StrCat(refusal_, "; names come from ", path_);
    refusal_.clear();
  }
}

ElfObject::~ElfObject() {
  if (session_ != nullptr) dwfl_end(session_);
  Close();
}

void ElfObject::Close() {
  if (elf_ != nullptr) elf_end(elf_);
  if (file_ >= 0) close(file_);
  elf_ = nullptr;
  file_ = -1;
}

bool ElfObject::Open(const std::string& path) {
  Close();
  path_ = path;
  errno = 0;
  // Non-blocking: it may be a FIFO by now.
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  struct stat status;
  if (file_ < 0 || fstat(file_, &status) != 0) return false;
  if (!S_ISREG(status.st_mode)) return false;
  Identify();
  errno = 0;
  return elf_ != nullptr;
}

void ElfObject::Identify() {
  elf_ = elf_begin(file_, ELF_C_READ_MMAP, nullptr);
  if (elf_ != nullptr && elf_kind(elf_) != ELF_K_ELF) {
    elf_end(elf_);
    elf_ = nullptr;
  }
  if (elf_ == nullptr) return;
  build_id_ = BuildIdOf(elf_);
  first_address_ = FirstAddressOf(elf_);
}

// All processes under one kernel have the same vdso. It has no file, so it gets one in memory.
void ElfObject::OpenVdso() {
  const auto* const image = reinterpret_cast<const Elf64_Ehdr*>(getauxval(AT_SYSINFO_EHDR));
  if (image == nullptr) return;
  const size_t bytes = image->e_shoff + size_t{image->e_shentsize} * image->e_shnum;  // sections are at the end
  file_ = memfd_create("vdso", MFD_CLOEXEC);
  if (file_ < 0 || write(file_, image, bytes) != static_cast<ssize_t>(bytes)) return;
  path_ = absl::StrCat("/proc/self/fd/", file_);
  Identify();
}

bool ElfObject::OpenDebugFile(const std::string& build_id) {
  if (build_id.size() < 2) return false;
  const std::string path = DebugFileOf(build_id);
  return Open(path) && SameBuild(build_id_, build_id);
}

std::vector<std::string> ElfObject::DebugFiles() const {
  std::vector<std::string> files = {DebugFileOf(build_id_)};
  GElf_Word checksum = 0;
  const char* const link = dwelf_elf_gnu_debuglink(elf_, &checksum);
  const std::string folder = std::filesystem::path(path_).parent_path().string();
  const std::string name =
      link != nullptr ? link : absl::StrCat(std::filesystem::path(path_).filename().string(), ".debug");
  for (const std::string& place :
       {folder, absl::StrCat(folder, "/.debug"), absl::StrCat(kDebugFolder, folder), std::string(kDebugFolder)}) {
    files.push_back(absl::StrCat(place, "/", name));
  }
  return files;
}

std::string ElfObject::Fingerprint() const {
  std::string fingerprint = StateOf(path_);
  for (const std::string& file : DebugFiles()) absl::StrAppend(&fingerprint, " ", StateOf(file));
  return fingerprint;
}

Dwfl_Module* ElfObject::Module() {
  if (session_ != nullptr) return module_;
  static char* debug_path = nullptr;  // libdw's default: next to the file, in .debug next to it, /usr/lib/debug
  static const Dwfl_Callbacks callbacks = {.find_elf = dwfl_build_id_find_elf,
                                           .find_debuginfo = dwfl_standard_find_debuginfo,
                                           .section_address = dwfl_offline_section_address,
                                           .debuginfo_path = &debug_path};
  session_ = dwfl_begin(&callbacks);
  if (session_ == nullptr) return nullptr;
  dwfl_report_begin(session_);
  const int file = dup(file_);  // libdwfl closes this one
  module_ = dwfl_report_elf(session_, path_.c_str(), path_.c_str(), file, 0, true);
  if (module_ == nullptr && file >= 0) close(file);
  dwfl_report_end(session_, nullptr, nullptr);
  return module_;
}

}  // namespace dlhook::analyzer::symbols
