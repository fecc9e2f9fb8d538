// A ring file left by a killed process, opened from outside: its header may be overwritten by stray writes of the host,
// its size differ from the header's, and the trace be shorter than the rings assume.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/io/packet_reader.h"
#include "analyzer/io/ring_file.h"
#include "preload/format/identity.h"
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

void Write(const fs::path& path, const std::string& bytes) { std::ofstream(path, std::ios::binary) << bytes; }

// The identity in a run's own rings; without it they are not read.
void NameTrace(const fs::path& trace, SessionHeader* header) {
  struct stat info;
  Require(stat(trace.c_str(), &info) == 0, "the trace was written");
  header->trace_inode = info.st_ino;
  Require(stat(trace.parent_path().c_str(), &info) == 0, "its folder is there");
  header->folder_device = info.st_dev;
  header->folder_inode = info.st_ino;
  std::ifstream("/proc/sys/kernel/random/boot_id").get(header->boot_id, sizeof header->boot_id);
  trace.filename().string().copy(header->trace_name, sizeof header->trace_name - 1);
}

void ScribbleIdentity(Input* input, SessionHeader* header) {
  header->pid_namespace = input->Byte() % 2 == 0 ? PidNamespace() : 1;  // 1: another machine's
  header->pid = 0x7fffffff;
  const uint8_t choice = input->Byte();
  if (choice % 4 == 0) header->mapping_bytes = header->mapping_bytes / 64 * (choice / 4);
  if (choice % 8 == 3) header->mapping_bytes = input->Size();
  if (choice % 8 == 1) header->hook_table_hash = input->Size();
  if (choice % 16 == 2) header->magic = input->Size();
  if (choice % 16 == 7) header->trace_inode = input->Size();
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
  const uint8_t written = input->Byte();
  std::string packets;  // empty ones: every second offset is the end of one
  for (int i = 0; i < written % 64; ++i) packets += std::string("\x0a\0", 2);
  Write(trace, written < 128 ? packets : input->Bytes(written % 64));
  HostileSession host(input);
  host.session()->header()->mapping_bytes = host.session()->bytes();
  NameTrace(trace, host.session()->header());
  ScribbleIdentity(input, host.session()->header());
  const std::string for_file = input->Bytes(4);
  host.Play([](uint8_t) {});
  host.session()->header()->checkpoint_generation = 0;  // even: no write in progress, for which a reader would wait
  Input file_input(reinterpret_cast<const uint8_t*>(for_file.data()), for_file.size());
  const fs::path rings = folder.path() / "dlhook-rings";
  Write(rings, FileOf(&file_input, host.session()));
  fs::remove(link);
  fs::create_symlink(rings, link);
  ReadAll(trace.string());
}

}  // namespace
}  // namespace dlhook::analyzer

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  dlhook::Input input(data, size);
  dlhook::analyzer::OpenRings(&input);
  return 0;
}
