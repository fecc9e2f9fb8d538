// Reading of loaded objects: our own, as the loader mapped them.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "analyzer/doctor/process_look.h"

extern "C" int sample_answer();  // elf_image_sample.c

namespace dlhook::analyzer {
namespace {

const NameSet& Wanted() {
  static const NameSet kWanted = {"sample_answer", "sample_allocate", "malloc", "no_such_name"};
  return kWanted;
}

// The object of this process whose path ends so.
absl::StatusOr<ElfImage> ImageOf(const std::string& end) {
  std::stringstream maps;
  maps << std::ifstream("/proc/self/maps").rdbuf();
  for (const MappedFile& file : MappedFiles(maps.str())) {
    if (file.path.ends_with(end)) return ReadElfImage(file.path, file.base, ProcessMemory(getpid()), Wanted());
  }
  return absl::NotFoundError(end);
}

TEST(ElfImageTest, ExportsAndBindings) {
  const absl::StatusOr<ElfImage> image = ImageOf("libelf_image_sample.so");
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->soname, "libelf_image_sample.so");
  EXPECT_EQ(std::count(image->needed.begin(), image->needed.end(), "libc.so.6"), 1);
  EXPECT_FALSE(image->is_executable);
  EXPECT_TRUE(image->Contains(reinterpret_cast<uint64_t>(&sample_answer)));
  std::vector<std::string> names;
  for (const ExportedSymbol& symbol : image->exports) names.push_back(symbol.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"sample_allocate", "sample_answer"}));
  const auto slot = std::find_if(image->slots.begin(), image->slots.end(),
                                 [](const BoundSlot& candidate) { return candidate.name == "malloc"; });
  ASSERT_NE(slot, image->slots.end());
  EXPECT_EQ(slot->definition, 0u);
  EXPECT_FALSE(slot->is_weak);
}

TEST(ElfImageTest, Executable) {
  EXPECT_EQ(sample_answer(), 42);  // the slot
  const absl::StatusOr<ElfImage> image = ImageOf("doctor_test");
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(image->is_executable);
  EXPECT_EQ(image->soname, "");
  const auto slot = std::find_if(image->slots.begin(), image->slots.end(),
                                 [](const BoundSlot& candidate) { return candidate.name == "sample_answer"; });
  ASSERT_NE(slot, image->slots.end());
  EXPECT_TRUE(slot->value == reinterpret_cast<uint64_t>(&sample_answer) || image->Contains(slot->value));
}

TEST(ElfImageTest, NoObject) {
  const ProcessMemory memory(getpid());
  EXPECT_FALSE(ReadElfImage("/proc/self/maps", 0x1000, memory, Wanted()).ok());
  EXPECT_FALSE(ReadElfImage("/no/such/file", 0x1000, memory, Wanted()).ok());
}

TEST(MappedFilesTest, FilesWithCodeOnce) {
  const std::vector<MappedFile> files = MappedFiles(
      "55d0c0000000-55d0c0001000 r--p 00000000 08:01 11                         /usr/bin/prog\n"
      "55d0c0001000-55d0c0002000 r-xp 00001000 08:01 11                         /usr/bin/prog\n"
      "55d0c1000000-55d0c1021000 rw-p 00000000 00:00 0                          [heap]\n"
      "7f0000000000-7f0000001000 r--p 00000000 08:01 12                         /usr/lib/locale/archive\n"
      "7f0000002000-7f0000003000 r-xp 00000000 08:01 13                         /opt/a b/lib.so (deleted)\n"
      "7f0000003000-7f0000004000 rw-p 00000000 08:01 13                         /opt/a b/lib.so (deleted)\n"
      "7f0000010000-7f0000011000 r--p 00000000 08:01 14                         /usr/lib/libc.so.6\n"
      "7f0000011000-7f0000012000 r-xp 00001000 08:01 14                         /usr/lib/libc.so.6\n"
      "7f0000020000-7f0000021000 r--p 00000000 08:01 14                         /usr/lib/libc.so.6\n"
      "7f0000021000-7f0000022000 r-xp 00001000 08:01 14                         /usr/lib/libc.so.6\n"
      "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                          [stack]\n"
      "7ffc00100000-7ffc00102000 r-xp 00000000 00:00 0                          [vdso]\n"
      "not a line\n\nzz-yy r-xp 0 08:01 9 /x\n");
  std::vector<std::pair<std::string, uint64_t>> found;
  for (const MappedFile& file : files) found.emplace_back(file.path, file.base);
  EXPECT_EQ(found, (std::vector<std::pair<std::string, uint64_t>>{{"/usr/bin/prog", 0x55d0c0000000},
                                                                  {"/opt/a b/lib.so", 0x7f0000002000},
                                                                  {"/usr/lib/libc.so.6", 0x7f0000010000},
                                                                  {"/usr/lib/libc.so.6", 0x7f0000020000}}));
}

}  // namespace
}  // namespace dlhook::analyzer
