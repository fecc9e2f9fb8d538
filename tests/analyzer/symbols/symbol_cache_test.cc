// What the cache keeps and drops, and how it handles damage.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "analyzer/symbols/resolve_object.h"

namespace dlhook::analyzer {
namespace {

namespace fs = std::filesystem;

class SymbolCacheTest : public testing::Test {
 protected:
  SymbolCacheTest() : folder_(fs::path(testing::TempDir()) / absl::StrCat("symbol_cache_", getpid())) {}
  ~SymbolCacheTest() override { fs::remove_all(folder_); }

  void Keep(const std::string& build_id, const std::string& key, uint64_t address, const std::string& function) {
    SymbolCache cache(folder_, build_id, key);
    SymbolFrames frames;
    SymbolFrame& inlined = *frames.add_frame();
    inlined.set_function("inlined");
    inlined.set_file("a.cc");
    inlined.set_is_inlined(true);
    SymbolFrame& outer = *frames.add_frame();
    outer.set_function(function);
    outer.set_offset(5);
    outer.set_line(4000000000);
    cache.Add(address, frames);
    cache.Write();
  }
  std::string Found(const std::string& build_id, const std::string& key, uint64_t address) {
    const SymbolCache cache(folder_, build_id, key);
    const SymbolFrames* const frames = cache.Find(address);
    if (frames == nullptr) return "";
    EXPECT_EQ(frames->frame_size(), 2);
    EXPECT_TRUE(frames->frame(0).is_inlined());
    EXPECT_EQ(frames->frame(0).file(), "a.cc");
    EXPECT_EQ(frames->frame(1).line(), 4000000000u);
    EXPECT_EQ(frames->frame(1).offset(), 5u);
    EXPECT_FALSE(frames->frame(1).is_inlined());
    return frames->frame(1).function();
  }

  const std::string folder_;
};

TEST_F(SymbolCacheTest, KeepsAndAdds) {
  Keep("aa", "key", 1, "one");
  Keep("aa", "key", 2, "two");
  EXPECT_EQ(Found("aa", "key", 1), "one");
  EXPECT_EQ(Found("aa", "key", 2), "two");
  EXPECT_EQ(Found("aa", "key", 3), "");
  EXPECT_EQ(Found("bb", "key", 1), "");
}

TEST_F(SymbolCacheTest, AnotherKeyForgets) {
  Keep("aa", "no debug file", 1, "one");
  EXPECT_EQ(Found("aa", "a debug file", 1), "");
}

TEST_F(SymbolCacheTest, NoFolderNoBuildId) {
  Keep("", "key", 1, "one");
  EXPECT_FALSE(fs::exists(folder_));
  SymbolCache("", "aa", "key").Write();
  SymbolCache("/proc/nowhere", "aa", "key").Write();
}

TEST_F(SymbolCacheTest, DamageIsForgotten) {
  Keep("aa", "key", 1, "one");
  const fs::path file = fs::path(folder_) / "aa.symbols";
  std::ifstream in(file, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    std::ofstream(file, std::ios::binary) << damaged;
    EXPECT_EQ(Found("aa", "key", 1), "") << "byte " << i;
    std::ofstream(file, std::ios::binary) << whole.substr(0, i);
    EXPECT_EQ(Found("aa", "key", 1), "") << "cut at " << i;
  }
}

TEST_F(SymbolCacheTest, TheLongestUnusedGoFirst) {
  for (const char* const name : {"aa", "bb", "cc"}) Keep(name, "key", 1, std::string(1000, 'x'));
  std::ofstream(fs::path(folder_) / "mine.txt") << std::string(5000, 'x');  // not a cache file
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(fs::path(folder_) / "aa.symbols", now - std::chrono::hours(1));
  fs::last_write_time(fs::path(folder_) / "bb.symbols", now - std::chrono::hours(2));
  TrimCache(folder_, 2500);
  EXPECT_TRUE(fs::exists(fs::path(folder_) / "aa.symbols"));
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "bb.symbols"));
  EXPECT_TRUE(fs::exists(fs::path(folder_) / "cc.symbols"));
  EXPECT_TRUE(fs::exists(fs::path(folder_) / "mine.txt"));
}

}  // namespace
}  // namespace dlhook::analyzer
