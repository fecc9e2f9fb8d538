// A ring file that a killed process left, opened from outside: its header says what the host's last
// stray write left there, its size is not what the header says, and beside it stands a trace that
// may be shorter than the rings believe.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/io/ring_file.h"
#include "analyzer/io/trace_bytes.h"
#include "preload/core/identity.h"
#include "proto/trace.pb.h"
#include "tests/fuzz/hostile_session.h"
#include "tests/fuzz/input.h"

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;

// A folder of this process, removed at its end.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "dlhook-fuzz-XXXXXX").string();
    Require(mkdtemp(name.data()) != nullptr, "there is room for a folder");
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// In memory under a name that can be opened, as rings are.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : fd_(memfd_create("rings", MFD_CLOEXEC)) {
    Require(
        fd_ >= 0 && write(fd_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
        "there is memory");
  }
  ~MemoryFile() { close(fd_); }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd_); }

 private:
  int fd_;
};

void ScribbleIdentity(Input* input, SessionHeader* header) {
  header->pid_namespace = input->Byte() % 2 == 0 ? PidNamespace() : 1;  // 1: another machine's
  header->pid = 0x7fffffff;
  const uint8_t choice = input->Byte();
  if (choice % 4 == 0) header->mapping_bytes = header->mapping_bytes / 64 * (choice / 4);
  if (choice % 8 == 3) header->mapping_bytes = input->Size();
  if (choice % 8 == 1) header->hook_table_hash = input->Size();
  if (choice % 16 == 2) header->magic = input->Size();
}

std::string FileOf(Input* input, TestSession* session) {
  std::string bytes(reinterpret_cast<const char*>(session->header()), session->bytes());
  const uint8_t choice = input->Byte();
  if (choice % 4 == 0) bytes.resize(input->Size() % bytes.size());
  if (choice % 4 == 1) bytes.resize(bytes.size() + input->Number<uint16_t>());
  return bytes;
}

void ReadAll(const std::string& trace_path) {
  const absl::StatusOr<TraceBytes> trace = TraceBytes::Open(trace_path, DrainLeftoverRings);
  if (!trace.ok()) return;
  PacketReader reader(trace_path, trace->chunks());
  trace::Packet packet;
  while (reader.Next()) reader.Parse(reader.payload(), &packet);
}

void OpenRings(Input* input) {
  static const Folder folder;
  const fs::path trace = folder.path() / "fuzz.dlh";
  const fs::path link = folder.path() / absl::StrCat("fuzz", kRingSuffix);
  const std::string written = input->Bytes(input->Byte() % 64);
  HostileSession host(input);
  host.session()->header()->mapping_bytes = host.session()->bytes();
  ScribbleIdentity(input, host.session()->header());
  const std::string for_file = input->Bytes(4);
  host.Play([](uint8_t) {});
  host.session()->header()->checkpoint_generation =
      0;  // even: nobody is writing, for which a reader would wait
  Input file_input(reinterpret_cast<const uint8_t*>(for_file.data()), for_file.size());
  const MemoryFile rings(FileOf(&file_input, host.session()));
  std::ofstream(trace, std::ios::binary) << written;
  fs::remove(link);
  fs::create_symlink(rings.path(), link);
  ReadAll(trace.string());
}

}  // namespace
}  // namespace dlhook::analyzer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlhook::Input input(data, size);
  dlhook::analyzer::OpenRings(&input);
  return 0;
}
