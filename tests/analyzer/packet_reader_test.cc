// Framing and opening: every prefix of a trace, every kind of file that is not one, every message.
#include "analyzer/io/packet_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/reader/load_run.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

std::string Message(const absl::Status& status) { return std::string(status.message()); }

trace::Trace SmallTrace() {
  return ParseTrace(HeaderText("pid: 7") + OpsText() + R"pb(
    packet { thread { thread_id: 1 tid: 7 name: "main" } }
    packet {
      call_batch {
        thread_id: 1
        op_iid: [ 1, 2 ]
        sequence_delta: [ 0, 0 ]
        end_delta_ticks: [ 1000, 1000 ]
        duration: [ 300, 400 ]
        parent_distance: [ 0, 0 ]
      }
    }
    packet { footer { end: EXITED end_ticks: 3000 calls: 2 } })pb");
}

struct ReadResult {
  std::vector<std::string> payloads;
  absl::Status status;
};

ReadResult ReadAll(std::vector<ByteChunk> chunks) {
  PacketReader reader("x.dlh", std::move(chunks));
  ReadResult result;
  trace::Packet packet;
  while (reader.Next()) {
    if (reader.Parse(reader.payload(), &packet)) result.payloads.emplace_back(reader.payload());
  }
  result.status = reader.status();
  return result;
}

TEST(PacketReader, ReturnsTheWholePacketsOfEveryPrefix) {
  const trace::Trace trace = SmallTrace();
  std::vector<size_t> boundaries = {0};
  for (const trace::Packet& packet : trace.packet()) {
    trace::Trace one;
    *one.add_packet() = packet;
    boundaries.push_back(boundaries.back() + one.ByteSizeLong());
  }
  const std::string bytes = TraceBytesOf(trace);
  ASSERT_EQ(boundaries.back(), bytes.size());
  size_t whole = 0;
  for (size_t size = 0; size <= bytes.size(); ++size) {
    if (whole + 1 < boundaries.size() && boundaries[whole + 1] == size) ++whole;
    // On the heap and exactly as long, so that AddressSanitizer sees a read past the end.
    const std::vector<char> prefix(bytes.begin(), bytes.begin() + size);
    const ReadResult result = ReadAll({absl::string_view(prefix.data(), prefix.size())});
    EXPECT_EQ(result.payloads.size(), whole) << "cut at byte " << size;
    const bool is_whole = size > 0 && boundaries[whole] == size;
    EXPECT_EQ(result.status.ok(), is_whole) << "cut at byte " << size;
    if (is_whole) continue;
    EXPECT_TRUE(absl::IsDataLoss(result.status)) << result.status;
    EXPECT_TRUE(absl::StrContains(Message(result.status), "x.dlh")) << result.status;
    if (size == 0) continue;
    EXPECT_TRUE(absl::StrContains(Message(result.status), absl::StrCat("byte ", boundaries[whole], ":")))
        << "cut at byte " << size << ": " << result.status;
  }
}

TEST(PacketReader, SaysWhereAndWhatWasExpectedAtACutTail) {
  const std::string bytes = TraceBytesOf(HeaderText()) + std::string(
                                                             "\x0a\x05"
                                                             "ab",
                                                             4);
  const size_t header = bytes.size() - 4;
  EXPECT_EQ(Message(ReadAll({bytes}).status),
            absl::StrCat("x.dlh: byte ", header, ": cut off inside a packet: expected 7 bytes, found the end after 4"));
}

TEST(PacketReader, SaysThatAFileIsEmpty) {
  EXPECT_EQ(
      Message(ReadAll({""}).status),
      "x.dlh: the file is empty; expected a dlhook trace (a header packet at byte 0): its process was killed before "
      "anything was written, or could write nothing (a full disk; ulimit -f)");
}

TEST(PacketReader, TellsAForeignFile) {
  for (const std::string& bytes :
       {std::string("hello, world"),
        std::string("\x7f"
                    "ELF\x02\x01\x01"),
        std::string("\n\nText after an empty line\n"), std::string("\ntext"), std::string(100, '\0'),
        std::string("\x0a\x00", 2),
        std::string("\x0a\x03"
                    "abc",
                    5),
        TraceBytesOf("packet { footer { calls: 3 } }"), TraceBytesOf("packet { header { tool_version: 'x' } }")}) {
    const ReadResult result = ReadAll({bytes});
    EXPECT_TRUE(absl::IsInvalidArgument(result.status)) << result.status;
    EXPECT_TRUE(absl::StrContains(Message(result.status), "x.dlh: not a dlhook trace (byte ")) << result.status;
    EXPECT_TRUE(result.payloads.empty());
  }
}

TEST(PacketReader, RefusesANewerSchemaAndSaysWhich) {
  const std::string bytes = TraceBytesOf("packet { header { schema_major: 3 schema_minor: 1 tool_version: '7.2' } }") +
                            TraceBytesOf(SmallTrace());
  const ReadResult result = ReadAll({bytes});
  EXPECT_TRUE(absl::IsFailedPrecondition(result.status));
  EXPECT_EQ(Message(result.status), "x.dlh: schema version 3.1, written by dlhook 7.2; this one (dlhook " DLHOOK_VERSION
                                    ") reads up to 1.x; read it with the dlhook that wrote it");
  EXPECT_TRUE(result.payloads.empty());
}

TEST(PacketReader, StopsAtBytesThatAreNoPacket) {
  const std::string good = TraceBytesOf(SmallTrace());
  const ReadResult result = ReadAll({good + "junk"});
  EXPECT_EQ(result.payloads.size(), 5u);
  EXPECT_EQ(Message(result.status),
            absl::StrCat("x.dlh: byte ", good.size(), ": expected the start of a packet (0x0a), found 0x6a"));
}

TEST(PacketReader, StopsAtAMalformedPacket) {
  const std::string good = TraceBytesOf(SmallTrace());
  const std::string bad("\x0a\x02\x0a\x7f", 4);  // a call batch longer than its packet
  const ReadResult result = ReadAll({good + bad + good});
  EXPECT_EQ(result.payloads.size(), 5u);
  EXPECT_EQ(Message(result.status), absl::StrCat("x.dlh: byte ", good.size(),
                                                 ": expected a valid packet in these 2 bytes, found a malformed one"));
}

TEST(PacketReader, StopsAtALengthThatIsNoVarint) {
  const std::string good = TraceBytesOf(SmallTrace());
  const ReadResult result = ReadAll({good + "\x0a" + std::string(12, '\xff')});
  EXPECT_EQ(result.payloads.size(), 5u);
  EXPECT_EQ(Message(result.status),
            absl::StrCat("x.dlh: byte ", good.size() + 1, ": expected the length of a packet, found no valid varint"));
}

TEST(PacketReader, GoesOnWithTheNextChunkAfterACut) {
  const std::string first = TraceBytesOf(SmallTrace());
  const std::string second = TraceBytesOf("packet { reset { reason: NEW_WRITER } } packet { footer { calls: 2 } }");
  const ReadResult result = ReadAll({absl::string_view(first).substr(0, first.size() - 1), second});
  EXPECT_EQ(result.payloads.size(), 6u);
  EXPECT_TRUE(absl::StrContains(Message(result.status), "cut off"));
}

TEST(PacketReader, ReadsALeftoverBesideAnEmptyFile) {
  const std::string leftover = TraceBytesOf(SmallTrace());
  const ReadResult result = ReadAll({"", leftover});
  EXPECT_EQ(result.payloads.size(), 5u);
  EXPECT_TRUE(result.status.ok()) << result.status;
}

TEST(PacketReader, SurvivesEveryChangedByte) {
  const std::string bytes = TraceBytesOf(SmallTrace());
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      const ReadResult result = ReadAll({damaged});
      EXPECT_LE(result.payloads.size(), 5u);
    }
  }
}

TEST(PacketReader, RefusesAPacketThatIsTooLarge) {
  const std::string good = TraceBytesOf(SmallTrace());
  trace::Trace large;
  large.add_packet()->mutable_thread()->set_name(std::string(kMaxPacketBytes, 'x'));
  const std::string bytes = good + TraceBytesOf(large);
  const ReadResult result = ReadAll({bytes});
  EXPECT_EQ(result.payloads.size(), 5u);
  EXPECT_EQ(Message(result.status), absl::StrCat("x.dlh: byte ", good.size(), ": a packet of ", kMaxPacketBytes + 10,
                                                 " bytes; expected at most ", kMaxPacketBytes));
}

// A trace longer than the part of a file that is in memory at once.
std::string LongTrace() {
  trace::Trace trace = SmallTrace();
  for (int i = 0; i < 3000; ++i) trace.add_packet()->mutable_thread()->set_name(std::string(i, 'x'));
  return TraceBytesOf(trace);
}

TEST(PacketReader, ReadsAFileAsItReadsMemory) {
  const TemporaryFolder folder;
  const std::string bytes = LongTrace();
  const absl::StatusOr<ByteSource> file = ByteSource::Open(folder.Write("1.dlh", bytes));
  ASSERT_TRUE(file.ok()) << file.status();
  for (const size_t size : {bytes.size(), bytes.size() - 1, size_t{3000}, size_t{1}, size_t{0}}) {
    const ReadResult result = ReadAll({ByteChunk(&*file, size)});
    const ReadResult expected = ReadAll({absl::string_view(bytes).substr(0, size)});
    EXPECT_EQ(result.payloads, expected.payloads) << size;
    EXPECT_EQ(result.status, expected.status) << size;
  }
}

TEST(PacketReader, SaysThatAFileWasShortenedWhileItWasRead) {
  const TemporaryFolder folder;
  const std::string bytes = LongTrace();
  const std::string path = folder.Write("1.dlh", bytes);
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  PacketReader reader("x.dlh", {ByteChunk(&*file, file->size())});
  ASSERT_TRUE(reader.Next());
  std::filesystem::resize_file(path, 1000);
  int packets = 1;
  while (reader.Next()) ++packets;
  EXPECT_GE(packets, 5);
  EXPECT_EQ(Message(reader.status()), absl::StrCat(path, ": the file was shortened while it was read: it had ",
                                                   bytes.size(), " bytes, now it ends after 1000"));
}

TEST(LoadRun, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  folder.Write("1.dlh", TraceBytesOf(SmallTrace()));
  ASSERT_EQ(mkfifo((folder.path() + "/2.dlh").c_str(), 0600), 0);
  std::filesystem::create_directory(folder.path() + "/3.dlh");
  std::filesystem::create_symlink("/dev/zero", folder.path() + "/4.dlh");
  std::filesystem::create_symlink("5.dlh", folder.path() + "/5.dlh");
  const absl::StatusOr<LoadedRun> run = LoadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model.calls.size(), 2u);
  std::vector<std::string> messages;
  for (const absl::Status& damage : run->damage) messages.push_back(Message(damage));
  EXPECT_THAT(messages, testing::ElementsAre(folder.path() + "/2.dlh: is a FIFO; expected a regular file",
                                             folder.path() + "/3.dlh: is a folder; expected a regular file",
                                             folder.path() + "/4.dlh: is a device; expected a regular file",
                                             folder.path() + "/5.dlh: cannot open: Too many levels of symbolic links"));
}

TEST(LoadRun, SaysWhatIsWrongWithAFolder) {
  const TemporaryFolder folder;
  EXPECT_EQ(Message(LoadRun(folder.path()).status()),
            folder.path() + ": the folder is empty; expected process traces (*.dlh)");
  folder.Write("notes.txt", "x");
  EXPECT_EQ(Message(LoadRun(folder.path()).status()),
            folder.path() + ": no process traces (*.dlh) among the 1 entries of this folder");
  EXPECT_EQ(Message(LoadRun(folder.path() + "/none").status()),
            folder.path() +
                "/none: no such file or folder; expected a run (a folder with *.dlh files) or one "
                "process trace");
}

TEST(LoadRun, ReadsTheGoodTracesBesideABadOne) {
  const TemporaryFolder folder;
  folder.Write("1.dlh", TraceBytesOf(SmallTrace()));
  folder.Write("2.dlh", "no trace");
  folder.Write("3.dlh", TraceBytesOf(SmallTrace()));
  const absl::StatusOr<LoadedRun> run = LoadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->model.processes.size(), 2u);
  EXPECT_EQ(run->model.calls.size(), 4u);
  ASSERT_EQ(run->damage.size(), 1u);
  EXPECT_TRUE(absl::StrContains(Message(run->damage[0]), folder.path() + "/2.dlh: "));
}

TEST(LoadRun, ReadsNothingOutOfAnEmptyTraceBesideOthers) {
  const TemporaryFolder folder;
  folder.Write("1.dlh", TraceBytesOf(SmallTrace()));
  folder.Write("2.dlh", "");
  const absl::StatusOr<LoadedRun> run = LoadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->damage.empty());
  ASSERT_EQ(run->model.oddities.size(), 1u);
  EXPECT_TRUE(absl::StrContains(run->model.oddities.begin()->first, "2.dlh: empty"));
}

TEST(LoadRun, SaysThatTheOnlyTraceIsEmpty) {
  const TemporaryFolder folder;
  folder.Write("2.dlh", "");
  const absl::StatusOr<LoadedRun> run = LoadRun(folder.path());
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_EQ(run->damage.size(), 1u);
  EXPECT_TRUE(absl::StrContains(Message(run->damage[0]), folder.path() + "/2.dlh: the file is empty"));
}

TEST(EndsAPacket, OnlyWherePacketsEnd) {
  const std::string bytes = TraceBytesOf(SmallTrace());
  EXPECT_TRUE(EndsAPacket(bytes, 0));
  EXPECT_TRUE(EndsAPacket(bytes, bytes.size()));
  EXPECT_FALSE(EndsAPacket(bytes, 1));
  EXPECT_FALSE(EndsAPacket(bytes, bytes.size() - 1));
  EXPECT_FALSE(EndsAPacket(bytes, bytes.size() + 1));
}

TEST(LoadRun, AppendsWhatWasLeftInMemory) {
  const TemporaryFolder folder;
  const std::string path = folder.Write("1.dlh", "");
  LoadOptions options;
  options.drain_leftover = [&](const std::string& asked) -> absl::StatusOr<Leftover> {
    EXPECT_EQ(asked, path);
    return Leftover{.packets = TraceBytesOf(SmallTrace())};
  };
  const absl::StatusOr<LoadedRun> run = LoadRun(path, options);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(run->damage.empty());
  EXPECT_EQ(run->model.calls.size(), 2u);
}

}  // namespace
}  // namespace dlhook::analyzer
