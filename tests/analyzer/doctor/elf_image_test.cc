// Parsing of loaded objects: our own, as the loader mapped them, and the same bytes damaged.
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "analyzer/doctor/process_look.h"
#include "tests/analyzer/byte_memory.h"

extern "C" int sample_answer();  // elf_image_sample.c
extern "C" void* sample_allocate();

namespace dlhook::analyzer {
namespace {

// The address range of the object that contains `address`.
AddressRange ObjectOf(const void* address) {
  struct Search {
    uint64_t address;
    AddressRange found;
  } search = {reinterpret_cast<uint64_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* argument) {
        auto* search = static_cast<Search*>(argument);
        AddressRange range = {UINT64_MAX, 0};
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD) continue;
          range.start = std::min(range.start, (info->dlpi_addr + segment.p_vaddr) & ~uint64_t{4095});
          range.end = std::max(range.end, info->dlpi_addr + segment.p_vaddr + segment.p_memsz);
        }
        if (range.Contains(search->address)) search->found = range;
        return 0;
      },
      &search);
  return search.found;
}

const AddressRange& Sample() {
  static const AddressRange kRange = ObjectOf(reinterpret_cast<const void*>(&sample_answer));
  return kRange;
}

const NameSet& Wanted() {
  static const NameSet kWanted = {"sample_answer", "sample_allocate", "malloc", "no_such_name"};
  return kWanted;
}

TEST(ElfImageTest, ExportsAndBindings) {
  const absl::StatusOr<ElfImage> image = ReadElfImage(ProcessMemory(getpid()), Sample().start, Wanted());
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
  const uint64_t base = ObjectOf(reinterpret_cast<const void*>(&Wanted)).start;
  const absl::StatusOr<ElfImage> image = ReadElfImage(ProcessMemory(getpid()), base, Wanted());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_TRUE(image->is_executable);
  EXPECT_EQ(image->soname, "");
  const auto slot = std::find_if(image->slots.begin(), image->slots.end(),
                                 [](const BoundSlot& candidate) { return candidate.name == "sample_answer"; });
  ASSERT_NE(slot, image->slots.end());
  EXPECT_TRUE(slot->value == reinterpret_cast<uint64_t>(&sample_answer) || image->Contains(slot->value));
}

TEST(ElfImageTest, NoObject) {
  ByteMemory memory(0x1000, std::string(4096, 'x'));
  EXPECT_EQ(ReadElfImage(memory, 0x1000, Wanted()).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_FALSE(ReadElfImage(memory, 0, Wanted()).ok());
  EXPECT_FALSE(ReadElfImage(ProcessMemory(getpid()), 0, Wanted()).ok());
}

ByteMemory CopyOfSample() {
  std::string bytes(Sample().end - Sample().start, '\0');
  // There may be holes between segments.
  const ProcessMemory self(getpid());
  for (size_t at = 0; at < bytes.size(); at += 4096)
    self.Read(Sample().start + at, &bytes[at], std::min<size_t>(4096, bytes.size() - at));
  return {Sample().start, std::move(bytes)};
}

TEST(ElfImageTest, CopyReadsAlike) {
  const absl::StatusOr<ElfImage> image = ReadElfImage(CopyOfSample(), Sample().start, Wanted());
  const absl::StatusOr<ElfImage> original = ReadElfImage(ProcessMemory(getpid()), Sample().start, Wanted());
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->exports.size(), original->exports.size());
  EXPECT_EQ(image->slots.size(), original->slots.size());
  EXPECT_EQ(image->build_id, original->build_id);
}

// Sets each byte of headers, dynamic section and tables to other values. Only requires that there is a result, and that
// it is based on readable memory.
TEST(ElfImageTest, DamagedObjects) {
  ByteMemory memory = CopyOfSample();
  const auto* header = reinterpret_cast<const Elf64_Ehdr*>(memory.bytes().data());
  std::vector<AddressRange> places = {{0, sizeof *header + header->e_phnum * sizeof(Elf64_Phdr)}};
  for (int i = 0; i < header->e_phnum; ++i) {
    const auto* segment = reinterpret_cast<const Elf64_Phdr*>(memory.bytes().data() + header->e_phoff) + i;
    if (segment->p_type == PT_DYNAMIC || segment->p_type == PT_NOTE)
      places.push_back({segment->p_vaddr, segment->p_vaddr + segment->p_memsz});
  }
  places.push_back({places.front().end, std::min<uint64_t>(16384, memory.bytes().size())});  // hashes, symbols, strings
  std::mt19937_64 random(20261122);
  int whole = 0;
  constexpr int kDamages = 4000;
  for (int n = 0; n < kDamages; ++n) {
    std::vector<std::pair<uint64_t, uint64_t>> saved;
    for (int i = 0; i <= static_cast<int>(random() % 3); ++i) {
      const AddressRange& place = places[random() % places.size()];
      const uint64_t at = (place.start + random() % (place.end - place.start)) & ~uint64_t{7};
      uint64_t word = 0;
      memcpy(&word, &memory.bytes()[at], sizeof word);
      saved.emplace_back(at, word);
      const uint64_t values[] = {0,        UINT64_MAX,         word ^ (uint64_t{1} << random() % 64),
                                 random(), word + 0x100000000, 0x7fffffff};
      memcpy(&memory.bytes()[at], &values[random() % std::size(values)], sizeof word);
    }
    const absl::StatusOr<ElfImage> image = ReadElfImage(memory, Sample().start, Wanted());
    if (image.ok()) {
      ++whole;
      for (const ExportedSymbol& symbol : image->exports) EXPECT_TRUE(Wanted().contains(symbol.name));
      for (const BoundSlot& slot : image->slots) EXPECT_TRUE(Wanted().contains(slot.name));
    }
    for (auto undo = saved.rbegin(); undo != saved.rend(); ++undo)
      memcpy(&memory.bytes()[undo->first], &undo->second, sizeof undo->second);
  }
  EXPECT_GT(whole, kDamages / 10);  // both kinds of results occurred
  EXPECT_LT(whole, kDamages);
}

TEST(ElfImageTest, EveryCut) {
  const std::string bytes = CopyOfSample().bytes();
  for (size_t size = 0; size < bytes.size(); size += size < 8192 ? 61 : 4093) {
    ReadElfImage(ByteMemory(Sample().start, bytes.substr(0, size)), Sample().start, Wanted()).IgnoreError();
  }
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
