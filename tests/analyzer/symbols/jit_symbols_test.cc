// Perf maps and jitdumps, intact and damaged.
#include "analyzer/symbols/jit_symbols.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace dlhook::analyzer {
namespace {

template <typename T>
void Put(T value, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutRecord(uint32_t kind, const std::string& body, std::string* dump) {
  Put<uint32_t>(kind, dump);
  Put<uint32_t>(static_cast<uint32_t>(16 + body.size()), dump);
  Put<uint64_t>(1000, dump);
  *dump += body;
}

std::string Header(uint32_t pid, uint32_t machine = EM_X86_64) {
  std::string bytes;
  for (const uint32_t word : {0x4a695444u, 1u, 40u, machine, 0u, pid}) Put<uint32_t>(word, &bytes);
  Put<uint64_t>(1, &bytes);
  Put<uint64_t>(0, &bytes);
  return bytes;
}

void PutLoad(uint64_t address, uint64_t size, uint64_t index, const std::string& name, std::string* dump) {
  std::string body;
  Put<uint64_t>(0, &body);
  for (const uint64_t word : {address, address, size, index}) Put<uint64_t>(word, &body);
  body += name + '\0' + std::string(size, '\xc3');
  PutRecord(0, body, dump);
}

void PutLine(uint64_t address, uint32_t line, const std::string& file, std::string* body) {
  Put<uint64_t>(address, body);
  Put<uint32_t>(line, body);
  Put<uint32_t>(0, body);
  *body += file + '\0';
}

std::string NameAt(const JitSymbols& symbols, uint64_t address) {
  const JitFunction* const function = symbols.Find(address);
  return function == nullptr ? "" : function->name;
}

TEST(PerfMap, Lines) {
  JitSymbols symbols;
  // As `python -X perf`, node and the JVM write them.
  EXPECT_EQ(ReadPerfMap("7f0000001000 10 py::<module>:/home/me/a b.py\n"
                        "0x7f0000001010 0x20 LazyCompile:~step train.js:3\n"
                        "nonsense\n7f 0 empty\n12 zz x\n ffffffffffffffff 10 wraps\n\n"
                        "00007f0000002000 40 void Net::forward(float[])",
                        &symbols),
            3u);
  symbols.Finish();
  EXPECT_EQ(NameAt(symbols, 0x7f0000000fff), "");
  EXPECT_EQ(NameAt(symbols, 0x7f0000001000), "py::<module>:/home/me/a b.py");
  EXPECT_EQ(NameAt(symbols, 0x7f000000100f), "py::<module>:/home/me/a b.py");
  EXPECT_EQ(NameAt(symbols, 0x7f0000001010), "LazyCompile:~step train.js:3");
  EXPECT_EQ(NameAt(symbols, 0x7f0000001030), "");
  EXPECT_EQ(NameAt(symbols, 0x7f000000203f), "void Net::forward(float[])");
  EXPECT_EQ(symbols.replaced(), 0u);
}

TEST(PerfMap, TheLastOneHolds) {
  JitSymbols symbols;
  ReadPerfMap("1000 100 old\n2000 10 other\n1080 10 new\n", &symbols);
  symbols.Finish();
  EXPECT_EQ(NameAt(symbols, 0x1085), "new");
  EXPECT_EQ(NameAt(symbols, 0x1000), "");  // its memory was reused: part of it may be anything
  EXPECT_EQ(NameAt(symbols, 0x2000), "other");
  EXPECT_EQ(symbols.replaced(), 1u);
}

TEST(JitDump, LoadsLinesAndMoves) {
  std::string dump = Header(4711);
  std::string lines;
  Put<uint64_t>(0x1000, &lines);
  Put<uint64_t>(2, &lines);
  PutLine(0x1000, 7, "net.py", &lines);
  PutLine(0x1008, 9, "\xff", &lines);
  PutRecord(2, lines, &dump);
  PutLoad(0x1000, 0x10, 1, "forward", &dump);
  PutLoad(0x3000, 0x10, 2, "backward", &dump);
  std::string move;
  Put<uint64_t>(0, &move);
  for (const uint64_t word : {0x5000u, 0x3000u, 0x5000u, 0x10u, 2u}) Put<uint64_t>(word, &move);
  PutRecord(1, move, &dump);
  PutRecord(3, "", &dump);
  JitSymbols symbols;
  ASSERT_TRUE(ReadJitDump(dump, 4711, &symbols));
  symbols.Finish();
  const JitFunction* const forward = symbols.Find(0x1009);
  ASSERT_NE(forward, nullptr);
  EXPECT_EQ(forward->name, "forward");
  ASSERT_EQ(forward->lines.size(), 2u);
  EXPECT_EQ(forward->lines[1].line, 9u);
  EXPECT_EQ(forward->lines[1].file, "net.py");
  EXPECT_EQ(NameAt(symbols, 0x500f), "backward");
}

TEST(JitDump, OfAnotherProcessOrMachine) {
  JitSymbols symbols;
  EXPECT_FALSE(ReadJitDump(Header(1), 4711, &symbols));
  EXPECT_FALSE(ReadJitDump(Header(4711, EM_AARCH64), 4711, &symbols));
  EXPECT_FALSE(ReadJitDump("", 4711, &symbols));
  EXPECT_FALSE(ReadJitDump("not a jitdump at all, but long enough for a header", 4711, &symbols));
}

TEST(JitDump, OfPython313) {
  std::string dump = Header(4711, EM_NONE);
  PutLoad(0x1000, 0x10, 1, "py::forward:/train.py", &dump);
  JitSymbols symbols;
  EXPECT_TRUE(ReadJitDump(dump, 4711, &symbols));
  symbols.Finish();
  EXPECT_EQ(NameAt(symbols, 0x1000), "py::forward:/train.py");
}

TEST(JitDump, EndsAnywhere) {
  std::string whole = Header(4711);
  PutLoad(0x1000, 0x10, 1, "forward", &whole);
  PutLoad(0x2000, 0x10, 2, "backward", &whole);
  for (size_t size = 40; size < whole.size(); ++size) {
    JitSymbols symbols;
    ASSERT_TRUE(ReadJitDump(whole.substr(0, size), 4711, &symbols));
    symbols.Finish();
    EXPECT_EQ(NameAt(symbols, 0x2000), "") << size;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
