// Addresses of this program, its libraries and the vdso as frames of a run; dladdr and the compiler give the expected
// names.
#include "analyzer/symbols/add_symbols.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

extern "C" __attribute__((noinline, visibility("default"))) int SymbolsTestFunction(int value) { return value * 7 + 1; }

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint32_t kPid = 3999999999;  // no such process

// As reported by the shim.
std::vector<Mapping> LoadedObjects() {
  std::vector<Mapping> mappings;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        Mapping mapping;
        uint64_t start = UINT64_MAX;
        uint64_t end = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          const uint64_t address = info->dlpi_addr + segment.p_vaddr;
          if (segment.p_type == PT_LOAD) {
            start = std::min(start, address & ~uint64_t{4095});
            end = std::max(end, address + segment.p_memsz);
          }
          if (segment.p_type != PT_NOTE) continue;
          const char* at = reinterpret_cast<const char*>(address);
          for (const char* const last = at + segment.p_memsz; at + sizeof(ElfW(Nhdr)) <= last;) {
            const auto* const note = reinterpret_cast<const ElfW(Nhdr)*>(at);
            const char* const value = at + sizeof *note + ((note->n_namesz + 3u) & ~3u);
            if (note->n_type == NT_GNU_BUILD_ID) mapping.build_id.assign(value, note->n_descsz);
            at = value + ((note->n_descsz + 3u) & ~3u);
          }
        }
        mapping.start = start;
        mapping.end = end;
        mapping.path = *info->dlpi_name != '\0' ? info->dlpi_name : fs::read_symlink("/proc/self/exe").string();
        static_cast<std::vector<Mapping>*>(argument)->push_back(mapping);
        return 0;
      },
      &mappings);
  return mappings;
}

// The address of a symbol in the vdso's symbol table, which is in memory.
uint64_t VdsoSymbol(uint64_t start, const char* name) {
  const auto* const header = reinterpret_cast<const ElfW(Ehdr)*>(start);
  const auto* const sections = reinterpret_cast<const ElfW(Shdr)*>(start + header->e_shoff);
  for (int i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(start + sections[i].sh_offset);
    const char* const texts = reinterpret_cast<const char*>(start + sections[sections[i].sh_link].sh_offset);
    for (size_t k = 0; k < sections[i].sh_size / sizeof *symbols; ++k) {
      if (strcmp(texts + symbols[k].st_name, name) == 0) return symbols[k].st_value;
    }
  }
  return 0;
}

class AddSymbolsTest : public testing::Test {
 protected:
  AddSymbolsTest() : folder_(fs::path(testing::TempDir()) / absl::StrCat("add_symbols_", getpid())) {
    fs::create_directories(folder_);
    std::ofstream(fs::path(folder_) / "1.dlh") << "a trace";
    unsetenv("DEBUGINFOD_URLS");
    model_.processes.emplace_back();
    model_.processes[0].pid = kPid;
    model_.processes[0].path = folder_ + "/1.dlh";
    for (const char* name : {"a name", "another"}) model_.AddName(name);
  }
  ~AddSymbolsTest() override { fs::remove_all(folder_); }

  void Map(std::vector<Mapping> mappings) { model_.processes[0].mappings = std::move(mappings); }
  Mapping& OwnObject() {
    for (Mapping& mapping : model_.processes[0].mappings) {
      const uint64_t address = reinterpret_cast<uint64_t>(&SymbolsTestFunction);
      if (address >= mapping.start && address < mapping.end) return mapping;
    }
    abort();
  }
  // A stack with these frames, outermost first, and `calls` calls under it.
  FrameIndex Stack(const std::vector<uint64_t>& addresses, int calls = 1) {
    NativeFrameColumns& frames = model_.native_frames;
    FrameIndex parent = kNone;
    for (const uint64_t address : addresses) {
      frames.address.push_back(address);
      frames.parent.push_back(parent);
      frames.process.push_back(0);
      frames.cut.push_back(StackCut::kWhole);
      parent = static_cast<FrameIndex>(frames.size() - 1);
    }
    for (int i = 0; i < calls; ++i) model_.calls.native_stack.push_back(parent);
    return parent;
  }
  void Add() { AddSymbols({.cache_folder = "", .use_debug_info = true}, &model_); }

  const NativeSymbol& Of(FrameIndex frame) const { return model_.native_symbols.Of(frame).back(); }
  std::string Name(NameIndex name) const { return name == kNone ? "" : model_.names.at(name); }
  std::string FunctionOf(FrameIndex frame) const { return Name(Of(frame).function); }
  const std::vector<std::string>& notes() const { return model_.native_symbols.notes; }

  const std::string folder_;
  const uint64_t own_ = reinterpret_cast<uint64_t>(&SymbolsTestFunction);
  TraceModel model_;
};

TEST_F(AddSymbolsTest, NamesProgramAndLibraries) {
  Map(LoadedObjects());
  // A function that sanitizers do not replace.
  const auto libc_address = reinterpret_cast<uint64_t>(&a64l);
  const FrameIndex own = Stack({libc_address, own_ + 3});
  Add();
  EXPECT_THAT(notes(), IsEmpty());
  EXPECT_EQ(FunctionOf(own), "SymbolsTestFunction");
  EXPECT_EQ(Of(own).offset, 3u);
  EXPECT_EQ(Name(Of(own).object), fs::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(FunctionOf(own - 1), "a64l");
  EXPECT_THAT(Name(Of(own - 1).object), HasSubstr("libc"));
}

TEST_F(AddSymbolsTest, NamesTheKernelsCode) {
  Map(LoadedObjects());
  for (const Mapping& mapping : model_.processes[0].mappings) {
    if (absl::StrContains(mapping.path, "vdso"))
      Stack({mapping.start + VdsoSymbol(mapping.start, "__vdso_clock_gettime") + 1});
  }
  if (model_.native_frames.size() == 0) GTEST_SKIP() << "SKIPPED: add_symbols_test: no vdso here";
  Add();
  EXPECT_THAT(notes(), IsEmpty());
  EXPECT_THAT(FunctionOf(0), HasSubstr("clock_gettime"));
}

TEST_F(AddSymbolsTest, NamesStayDistinctAndOldOnesStay) {
  Map(LoadedObjects());
  Stack({own_, own_ + 1, own_ + 2});
  Add();
  EXPECT_EQ(model_.names[0], "a name");
  EXPECT_EQ(model_.roles.size(), model_.names.size()) << "each has its role";
  std::vector<std::string> names = model_.names;
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
  const size_t symbols = model_.native_symbols.symbols.size();
  Add();  // again: nothing
  EXPECT_EQ(model_.native_symbols.symbols.size(), symbols);
}

TEST_F(AddSymbolsTest, AReplacedFileGivesNoNames) {
  Map(LoadedObjects());
  const std::string before = OwnObject().build_id;
  ASSERT_FALSE(before.empty());
  OwnObject().build_id = "\x01\x02\x03";
  const FrameIndex own = Stack({reinterpret_cast<uint64_t>(&a64l), own_ + 3, own_ + 5}, 3);
  Add();
  EXPECT_EQ(FunctionOf(own), "");
  EXPECT_EQ(Name(Of(own).object), fs::read_symlink("/proc/self/exe").string());
  EXPECT_EQ(Of(own).offset, own_ + 5 - OwnObject().start);
  EXPECT_EQ(FunctionOf(own - 2), "a64l");
  EXPECT_THAT(notes(), ElementsAre(AllOf(HasSubstr("symbols_test"), HasSubstr("replaced"),
                                         HasSubstr("that of the run is 010203"),
                                         HasSubstr("2 frames in the stacks of 3 calls"))));
}

TEST_F(AddSymbolsTest, AMissingFileAndOneThatIsNone) {
  Map(LoadedObjects());
  const FrameIndex own = Stack({own_});
  OwnObject().path = "/nowhere/libgone.so";
  Add();
  EXPECT_EQ(FunctionOf(own), "");
  EXPECT_EQ(Of(own).offset, own_ - OwnObject().start);
  EXPECT_THAT(notes(), ElementsAre(AllOf(HasSubstr("/nowhere/libgone.so"), HasSubstr("No such file"),
                                         HasSubstr("1 frame in the stacks of 1 call"))));
  for (const std::string& path : {folder_ + "/1.dlh", folder_, std::string("libfoo.so"), std::string("/dev/null")}) {
    model_.native_symbols = {};
    OwnObject().path = path;
    Add();
    EXPECT_EQ(FunctionOf(own), "");
    EXPECT_THAT(notes(), ElementsAre(HasSubstr(path)));
  }
}

TEST_F(AddSymbolsTest, OfManyMissingFilesThoseWithMostFramesAreNamed) {
  std::vector<Mapping> mappings;
  for (uint64_t file = 0; file < 6; ++file) {
    Mapping mapping;
    mapping.start = (file + 1) << 20;
    mapping.end = mapping.start + (1 << 20);
    mapping.path = absl::StrCat("/nowhere/lib", file, ".so");
    mappings.push_back(mapping);
  }
  Map(mappings);
  for (uint64_t file = 0; file < 6; ++file) {
    std::vector<uint64_t> addresses;
    for (uint64_t frame = 0; frame <= file; ++frame) addresses.push_back(mappings[file].start + 16 * frame);
    Stack(addresses);
  }
  Add();
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("/lib5.so: No such"), HasSubstr("/lib4.so: No"), HasSubstr("/lib3.so: No"),
                                   HasSubstr("3 more files are missing or are not those of the run: 6 frames in the "
                                             "stacks of 3 calls have no names")));
}

TEST_F(AddSymbolsTest, WithoutBuildIdNewerThanTheRun) {
  Map(LoadedObjects());
  OwnObject().build_id.clear();
  const FrameIndex own = Stack({own_});
  Add();
  EXPECT_EQ(FunctionOf(own), "SymbolsTestFunction");
  EXPECT_THAT(notes(), IsEmpty());
  // The run ended an hour before this program was built.
  struct stat built;
  ASSERT_EQ(stat("/proc/self/exe", &built), 0);
  const timespec times[2] = {{built.st_mtim.tv_sec - 3600, 0}, {built.st_mtim.tv_sec - 3600, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (folder_ + "/1.dlh").c_str(), times, 0), 0);
  model_.native_symbols = {};
  Add();
  EXPECT_EQ(FunctionOf(own), "SymbolsTestFunction");
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("no build-id and was written after the run began")));
}

TEST_F(AddSymbolsTest, TheLastMappingOfAPlaceHolds) {
  Map(LoadedObjects());
  Mapping earlier = OwnObject();
  earlier.path = "/nowhere/libearlier.so";
  earlier.build_id = "other";
  model_.processes[0].mappings.insert(model_.processes[0].mappings.begin(), earlier);
  const FrameIndex own = Stack({own_});
  Add();
  EXPECT_EQ(FunctionOf(own), "SymbolsTestFunction");
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("one after another")));
}

TEST_F(AddSymbolsTest, PerfMapOfTheRunsFolder) {
  Map(LoadedObjects());
  std::ofstream(absl::StrCat(folder_, "/perf-", kPid, ".map")) << "10000 100 py::forward:/train.py\n";
  const FrameIndex jit = Stack({0x10005});
  const FrameIndex unknown = Stack({0x20005}, 2);
  Add();
  EXPECT_EQ(FunctionOf(jit), "py::forward:/train.py");
  EXPECT_EQ(Name(Of(jit).object), "[jit]");
  EXPECT_EQ(Of(jit).offset, 5u);
  EXPECT_EQ(Of(unknown).object, kNone);
  EXPECT_EQ(Of(unknown).offset, 0x20005u);
  EXPECT_THAT(notes(), ElementsAre(HasSubstr("1 frame in the stacks of 2 calls lie in code that is in no file")));
}

TEST_F(AddSymbolsTest, PerfMapOfAnEarlierProcessOfTheSameNumber) {
  const std::string path = absl::StrCat("/tmp/perf-", kPid, ".map");
  std::ofstream(path) << "10000 100 old\n";
  const FrameIndex jit = Stack({0x10005});
  model_.processes[0].end_ns = 1000000000;  // one second: it began before the map was written
  Add();
  EXPECT_EQ(FunctionOf(jit), "old");
  const timespec times[2] = {{1000000000, 0}, {1000000000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  model_.native_symbols = {};
  Add();
  fs::remove(path);
  EXPECT_EQ(FunctionOf(jit), "");
  EXPECT_THAT(notes(), testing::Contains(AllOf(HasSubstr(path), HasSubstr("older than the process"))));
}

TEST_F(AddSymbolsTest, NoStacksNoSymbols) {
  Map(LoadedObjects());
  Add();
  EXPECT_TRUE(model_.native_symbols.empty());
  EXPECT_EQ(model_.names.size(), 2u);
}

}  // namespace
}  // namespace dlhook::analyzer
