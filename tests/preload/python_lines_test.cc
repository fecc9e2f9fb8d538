// Lines of instructions, compared with five releases of Python reading their own tables; texts; layouts of releases.
#include <gtest/gtest.h>
#include <string.h>

#include <string>
#include <utility>
#include <vector>

#include "preload/python/python_layout.h"

namespace dlhook {
namespace python_lines_test {

struct Vector {
  const char* name;
  PythonLines format;
  const char* table;  // hexadecimal
  int32_t first_line;
  int64_t code_bytes;
  std::vector<std::pair<int64_t, uint32_t>> lines;  // from this byte on, this line
};

const Vector kVectors[] = {
#include "tests/preload/python_lines_vectors.inc"
};

std::vector<uint8_t> FromHex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

TEST(PythonLinesTest, AsTheInterpretersSay) {
  for (const Vector& vector : kVectors) {
    const std::vector<uint8_t> table = FromHex(vector.table);
    size_t next = 0;
    uint32_t expected = 0;
    for (int64_t offset = 0; offset < vector.code_bytes; offset += 2) {
      while (next < vector.lines.size() && vector.lines[next].first <= offset) expected = vector.lines[next++].second;
      ASSERT_EQ(PythonLine(vector.format, table.data(), table.size(), vector.first_line, offset), expected)
          << vector.name << " at " << offset;
    }
    EXPECT_EQ(next, vector.lines.size()) << vector.name;
    EXPECT_EQ(PythonLine(vector.format, table.data(), table.size(), vector.first_line, -1),
              static_cast<uint32_t>(vector.first_line));
  }
}

// Truncated tables are read only to their end (the sanitizers watch).
TEST(PythonLinesTest, CutTables) {
  for (const Vector& vector : kVectors) {
    const std::vector<uint8_t> table = FromHex(vector.table);
    for (size_t bytes = 0; bytes < table.size(); ++bytes) {
      const std::vector<uint8_t> cut(table.begin(), table.begin() + static_cast<std::ptrdiff_t>(bytes));
      PythonLine(vector.format, cut.data(), cut.size(), vector.first_line, vector.code_bytes * 2);
    }
  }
}

template <typename Unit>
std::string Utf8(const std::vector<Unit>& text, size_t capacity = 64) {
  std::string encoded(capacity, '?');
  encoded.resize(EncodeUtf8(text.data(), text.size(), sizeof(Unit), encoded.data(), capacity));
  return encoded;
}

TEST(PythonTextTest, AllKinds) {
  EXPECT_EQ(Utf8<uint8_t>({'a', 'b'}), "ab");
  EXPECT_EQ(Utf8<uint8_t>({0xe9}), "\xc3\xa9");
  EXPECT_EQ(Utf8<uint16_t>({0x20ac, 'x'}),
            "\xe2\x82\xac"
            "x");
  EXPECT_EQ(Utf8<uint32_t>({0x1f40d}), "\xf0\x9f\x90\x8d");
  EXPECT_EQ(Utf8<uint8_t>({}), "");
}

TEST(PythonTextTest, LoneSurrogatesAndNonsenseAreReplaced) {
  EXPECT_EQ(Utf8<uint16_t>({0xdcff}), "\xef\xbf\xbd");
  EXPECT_EQ(Utf8<uint32_t>({0x110000}), "\xef\xbf\xbd");
}

TEST(PythonTextTest, CutsBetweenCodePoints) {
  EXPECT_EQ(Utf8<uint16_t>({'a', 0x20ac}, 3), "a");
  EXPECT_EQ(Utf8<uint16_t>({'a', 0x20ac}, 4), "a\xe2\x82\xac");
}

struct Answer {
  bool supported;
  PythonLayout layout;
  std::string reason;
};

Answer Layout(const char* version, const void* table = nullptr) {
  const char* reason = "";
  Answer answer = {};
  answer.supported = LayoutOfPython(version, table, &answer.layout, &reason);
  answer.reason = reason;
  return answer;
}

TEST(PythonLayoutTest, Releases) {
  EXPECT_EQ(Layout("3.9.18 (main, May 9 2026)").layout.lines, PythonLines::kLnotab);
  EXPECT_EQ(Layout("3.10.13+ (main)").layout.lines, PythonLines::kLineTable);
  EXPECT_EQ(Layout("3.11.2 (main)").layout.holder_frame, 8);
  EXPECT_EQ(Layout("3.12.1 (main)").layout.holder_frame, 0);
  EXPECT_EQ(Layout("3.12.1 (main)").reason, "");  // what is missing besides has a reason of its own
  for (const char* version :
       {"2.7.18 (default)", "3.8.18 (default)", "3.16.0 (main)", "4.0.0 (main)", "", "3", "3.11", "nonsense"}) {
    EXPECT_FALSE(Layout(version).supported) << version;
    EXPECT_NE(Layout(version).reason.find("not supported"), std::string::npos) << version;
  }
  for (const char* version : {"3.12.0a7 (main)", "3.12.0b1 (main)", "3.12.0rc3 (main)"}) {
    EXPECT_NE(Layout(version).reason.find("before its final release"), std::string::npos) << version;
  }
}

std::vector<uint64_t> TableOf(uint64_t version, const std::vector<std::pair<size_t, uint64_t>>& values) {
  std::vector<uint64_t> table(110, 0);
  memcpy(table.data(), "xdebugpy", 8);
  table[1] = version;
  for (const auto& [index, value] : values) table[index] = value;
  return table;
}

// As in 3.13.0's own _PyRuntime.
std::vector<uint64_t> Table313() {
  return TableOf(0x030d00f0, {{23, 72},
                              {29, 8},
                              {30, 0},
                              {31, 56},
                              {32, 72},
                              {33, 70},
                              {35, 112},
                              {37, 128},
                              {38, 136},
                              {39, 68},
                              {43, 200},
                              {68, 32},
                              {69, 16},
                              {70, 40}});
}

// As in 3.15.2's.
std::vector<uint64_t> Table315() {
  return TableOf(0x030f02f0, {{26, 72},
                              {40, 8},
                              {41, 0},
                              {42, 56},
                              {43, 80},
                              {44, 74},
                              {48, 112},
                              {50, 128},
                              {51, 136},
                              {52, 68},
                              {56, 208},
                              {90, 32},
                              {91, 16},
                              {92, 40}});
}

TEST(PythonLayoutTest, TableOfOffsets) {
  const Answer answer = Layout("3.13.0 (main)", Table313().data());
  ASSERT_TRUE(answer.supported) << answer.reason;
  EXPECT_EQ(answer.layout.thread_frame, 72);
  EXPECT_EQ(answer.layout.holder_frame, -1);
  EXPECT_EQ(answer.layout.frame_instruction, 56);
  EXPECT_EQ(answer.layout.code_start, 200);
  EXPECT_EQ(answer.layout.compact_bytes, 56);
  EXPECT_EQ(answer.layout.tag_bits, 0);
  const Answer newest = Layout("3.15.2 (main)", Table315().data());
  ASSERT_TRUE(newest.supported) << newest.reason;
  EXPECT_EQ(newest.layout.frame_previous, 8);
  EXPECT_EQ(newest.layout.frame_owner, 74);
  EXPECT_EQ(newest.layout.code_start, 208);
  EXPECT_EQ(newest.layout.tag_bits, 3);
}

TEST(PythonLayoutTest, WhereStringsSayTheirKind) {
  PythonLayout layout = Layout("3.13.0 (main)", Table313().data()).layout;
  constexpr uint32_t kAscii = 0b11001, kWide = 0b01100, kAbove = 0xffffffe0;  // ascii, compact, kind; not initialized
  for (uint8_t shift : {2, 16}) {
    layout.text_shift = shift;
    for (uint32_t interned : {0u, 1u, 3u}) {
      for (uint32_t bits : {kAscii, kWide}) {
        EXPECT_EQ(TextBits((bits | kAbove) << 2 | interned, layout) & 31, bits) << int{shift};
        if (shift == 16) {
          EXPECT_EQ(TextBits((bits | kAbove) << 16 | interned, layout) & 31, bits);
        }
      }
    }
  }
}

struct Member {  // PyMemberDef
  const char* name;
  int type;
  ptrdiff_t offset;
  int flags;
  const char* doc;
};

// A PyCode_Type whose header is `header_words` long before its type, with these members.
bool Agrees(size_t header_words, const std::vector<Member>& members) {
  const int type_of_types = 0;
  std::vector<const void*> code_type(64, nullptr);
  code_type[header_words] = &type_of_types;
  code_type[30 + header_words - 1] = members.data();
  return LayoutAgrees(Layout("3.11.7 (main)").layout, code_type.data(), &type_of_types);
}

TEST(PythonLayoutTest, ForksThatKeepTheVersion) {
  const Member name{"co_qualname", 6, 128, 1, nullptr}, line{"co_firstlineno", 1, 72, 1, nullptr};
  const Member file{"co_filename", 6, 112, 1, nullptr}, other_file{"co_filename", 6, 120, 1, nullptr}, end{};
  EXPECT_TRUE(Agrees(1, {line, file, name, end}));
  EXPECT_FALSE(Agrees(1, {line, other_file, name, end}));
  EXPECT_FALSE(Agrees(1, {line, file, end}));
  EXPECT_FALSE(Agrees(2, {line, file, name, end}));  // as without a GIL: preceded by the owning thread
  EXPECT_FALSE(Agrees(3, {line, file, name, end}));
}

TEST(PythonLayoutTest, TablesThatCanNotBeTrusted) {
  EXPECT_FALSE(Layout("3.13.0 (main)", nullptr).supported);
  std::vector<uint64_t> table = Table313();
  table[0] = 0;
  EXPECT_NE(Layout("3.13.0 (main)", table.data()).reason.find("not where it should be"), std::string::npos);
  table = Table313();
  table[1] = 0x030e00f0;
  EXPECT_FALSE(Layout("3.13.0 (main)", table.data()).supported);
  table = Table313();
  table[2] = 1;
  EXPECT_NE(Layout("3.13.0 (main)", table.data()).reason.find("free-threaded"), std::string::npos);
  table = Table313();
  table[38] = 1 << 20;
  EXPECT_NE(Layout("3.13.0 (main)", table.data()).reason.find("not understood"), std::string::npos);
}

}  // namespace python_lines_test
}  // namespace dlhook
