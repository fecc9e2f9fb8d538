// The program itself: what it prints where, and its exit codes.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class CliTest : public testing::Test {
 protected:
  // Runs `dlhook WORDS` in a shell, so that tests can quote and redirect.
  Outcome Dlhook(const std::string& words) {
    const std::string err_path = folder_.path() + "/stderr";
    FILE* pipe =
        popen(absl::StrCat("'" DLHOOK_BINARY "' ", words, " 2>'", err_path, "'").c_str(), "r");
    Outcome outcome;
    char buffer[4096];
    for (size_t count; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
      outcome.out.append(buffer, count);
    outcome.exit_code = WEXITSTATUS(pclose(pipe));
    std::ifstream err(err_path);
    outcome.err.assign(std::istreambuf_iterator<char>(err), {});
    return outcome;
  }

  // Nothing on stdout, one line on stderr, exit code 2.
  void ExpectUsageError(const std::string& words, const std::string& message) {
    const Outcome outcome = Dlhook(words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_EQ(outcome.err, "dlhook: " + message + "\n") << words;
  }

  std::string TraceText() {
    return HeaderText("pid: 7") + OpsText() + R"pb(
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
      packet { footer { end: EXITED end_ticks: 3000 calls: 2 } })pb";
  }

  std::string WriteTrace(const std::string& name = "1.dlh") {
    return folder_.Write(name, TraceBytesOf(TraceText()));
  }

  TemporaryFolder folder_;
};

TEST_F(CliTest, ReportsEveryTableInEveryFormat) {
  const std::string trace = WriteTrace();
  for (const std::string format : {"text", "csv", "json"}) {
    const Outcome outcome = Dlhook(absl::StrCat("report ", trace, " --format ", format));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    EXPECT_NE(outcome.out, "");
  }
}

TEST_F(CliTest, ReportsTheTablesAskedForInThatOrder) {
  const std::string trace = WriteTrace();
  const auto json =
      nlohmann::json::parse(Dlhook(absl::StrCat("report --table ops,summary --format=json ", trace,
                                                " --table ops --table=gemm"))
                                .out);
  ASSERT_EQ(json["tables"].size(), 3u);
  EXPECT_EQ(json["tables"][0]["name"], "ops");
  EXPECT_EQ(json["tables"][1]["name"], "summary");
  EXPECT_EQ(json["tables"][2]["name"], "gemm");
  EXPECT_EQ(json["run"]["name"], "1.dlh");
  EXPECT_EQ(json["run"]["wall_ns"], 2300);
}

TEST_F(CliTest, SortsAndLimits) {
  const std::string trace = WriteTrace();
  const Outcome all = Dlhook(absl::StrCat("report ", trace, " --table ops --format csv"));
  const Outcome one =
      Dlhook(absl::StrCat("report ", trace, " --table ops --format csv --sort calls --limit 1"));
  EXPECT_EQ(one.exit_code, 0) << one.err;
  const std::vector<std::string> lines = absl::StrSplit(one.out, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 2u) << one.out;
  EXPECT_TRUE(absl::StartsWith(all.out, lines[0])) << all.out;
}

TEST_F(CliTest, NamesWhatIsWrongInACommandLine) {
  const std::string trace = WriteTrace();
  EXPECT_TRUE(
      absl::StartsWith(Dlhook("reprot").err, "dlhook: unknown command 'reprot'; commands are "));
  EXPECT_EQ(Dlhook("reprot").exit_code, 2);
  ExpectUsageError("report", "report: expected RUN (see dlhook help report)");
  ExpectUsageError("report --tabel ops " + trace,
                   "report: unknown flag --tabel; it knows --table, --format, --sort, --by, "
                   "--depth, --evidence, --limit, --help (see dlhook help report)");
  ExpectUsageError("report -x " + trace,
                   "report: unknown flag -x; it knows --table, --format, --sort, --by, "
                   "--depth, --evidence, --limit, --help (see dlhook help report)");
  ExpectUsageError("report " + trace + " --table",
                   "report: --table expects a value: NAME[,NAME]... (see dlhook help report)");
  ExpectUsageError("report --help=x", "report: --help takes no value (see dlhook help report)");
  ExpectUsageError("report a b", "report: unexpected 'b' (see dlhook help report)");
  ExpectUsageError("report " + trace + " --format xml",
                   "report: unknown format 'xml'; there are text, csv, json");
  ExpectUsageError("report " + trace + " --limit many",
                   "report: --limit expects a number of rows, found 'many'");
  ExpectUsageError("report " + trace + " --by colour",
                   "report: --by expects layer, module, type, op or line, found 'colour'");
  ExpectUsageError("report " + trace + " --depth -1",
                   "report: --depth expects a number of parts of a name, found '-1'");
  ExpectUsageError("report " + trace + " --evidence none",
                   "report: --evidence expects all or structure, found 'none'");
  ExpectUsageError("report " + trace + " --limit -3",
                   "report: --limit expects a number of rows, found '-3'");
  ExpectUsageError("dump", "dump: expected RUN (see dlhook help dump)");
  ExpectUsageError("dump --table x",
                   "dump: unknown flag --table; it knows --help (see dlhook help dump)");
  ExpectUsageError(
      "report /none",
      "report: /none: no such file or folder; expected a run (a folder with *.dlh files) or one "
      "process trace");
}

TEST_F(CliTest, ListsTablesAndColumnsWhereOneIsUnknown) {
  const std::string trace = WriteTrace();
  const Outcome table = Dlhook("report " + trace + " --table ops,oops");
  EXPECT_EQ(table.exit_code, 2);
  EXPECT_TRUE(
      absl::StartsWith(table.err, "dlhook: report: unknown table 'oops'; there are summary, layers, "))
      << table.err;
  const Outcome column = Dlhook("report " + trace + " --table ops --sort colour");
  EXPECT_EQ(column.exit_code, 2);
  EXPECT_EQ(column.out, "");
  EXPECT_TRUE(absl::StartsWith(column.err,
                               "dlhook: report: unknown column 'colour' to sort by; there are "))
      << column.err;
  EXPECT_TRUE(absl::StrContains(column.err, "calls"));
}

TEST_F(CliTest, ShowsHelp) {
  const Outcome none = Dlhook("");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(none.err, "usage: dlhook COMMAND"));
  for (const std::string words : {"--help", "help", "-h"}) {
    const Outcome outcome = Dlhook(words);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_TRUE(absl::StrContains(outcome.out, "usage: dlhook COMMAND"));
    EXPECT_TRUE(absl::StrContains(outcome.out, "\n  report  "));
  }
  EXPECT_EQ(Dlhook("help report").out, Dlhook("report --help").out);
  EXPECT_TRUE(absl::StrContains(Dlhook("report --help").out, "--sort COLUMN"));
  EXPECT_EQ(Dlhook("help nothing").exit_code, 2);
  EXPECT_EQ(Dlhook("--version").out, "dlhook " DLHOOK_VERSION "\n");
}

TEST_F(CliTest, ReportsTheWholePacketsOfADamagedTrace) {
  const std::string bytes = TraceBytesOf(TraceText());
  const std::string trace = folder_.Write("1.dlh", bytes.substr(0, bytes.size() - 3));
  const Outcome outcome = Dlhook("report --table ops --format csv " + trace);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(outcome.out, "outer")) << outcome.out;
  EXPECT_TRUE(absl::StartsWith(outcome.err, "dlhook: " + trace + ": byte ")) << outcome.err;
  EXPECT_TRUE(absl::StrContains(outcome.err, "cut off inside a packet: expected "));
}

TEST_F(CliTest, RefusesWhatIsNoTrace) {
  for (const std::string command : {"report", "dump"}) {
    const Outcome foreign = Dlhook(command + " " + folder_.Write("foreign", "#!/bin/sh\n"));
    EXPECT_EQ(foreign.exit_code, 2);
    EXPECT_TRUE(absl::StrContains(
        foreign.err,
        "/foreign: not a dlhook trace (byte 0: expected the start of a packet (0x0a), "
        "found 0x23)"));
    const Outcome empty = Dlhook(command + " " + folder_.Write("empty", ""));
    EXPECT_EQ(empty.exit_code, 2);
    EXPECT_TRUE(absl::StrContains(empty.err, "/empty: the file is empty; expected a dlhook trace"));
    const Outcome newer =
        Dlhook(command + " " +
               folder_.Write("newer", TraceBytesOf("packet { header { schema_major: 2 } }")));
    EXPECT_EQ(newer.exit_code, 2);
    EXPECT_TRUE(absl::StrContains(newer.err, "/newer: schema version 2.0"));
  }
}

TEST_F(CliTest, DumpsWhatParsesAgain) {
  WriteTrace("b.dlh");
  WriteTrace("a.dlh");
  const Outcome outcome = Dlhook("dump " + folder_.path());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(
      absl::StartsWith(outcome.out, "# file: a.dlh\npacket {\n  header {\n    schema_major: 1\n"))
      << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.out, "\n# file: b.dlh\n"));
  EXPECT_TRUE(absl::StrContains(outcome.out, "    op_iid: [1, 2]\n"));
  EXPECT_EQ(TraceBytesOf(outcome.out), TraceBytesOf(TraceText()) + TraceBytesOf(TraceText()));
}

TEST_F(CliTest, DumpsEveryPrefix) {
  const trace::Trace trace = ParseTrace(TraceText());
  const std::string bytes = TraceBytesOf(trace);
  for (size_t size = 0; size <= bytes.size(); ++size) {
    const Outcome outcome = Dlhook("dump " + folder_.Write("cut.dlh", bytes.substr(0, size)));
    const std::string whole = TraceBytesOf(outcome.out);
    EXPECT_TRUE(absl::StartsWith(bytes, whole)) << "cut at byte " << size;
    const bool is_whole = size > 0 && whole.size() == size;
    EXPECT_EQ(outcome.exit_code, is_whole ? 0 : 2) << "cut at byte " << size;
    EXPECT_EQ(outcome.err.empty(), is_whole) << "cut at byte " << size << outcome.err;
  }
}

TEST_F(CliTest, EndsQuietlyWhereNobodyReads) {
  trace::Trace trace = ParseTrace(TraceText());
  for (int i = 0; i < 20'000; ++i) *trace.add_packet() = trace.packet(2);
  const std::string path = folder_.Write("1.dlh", TraceBytesOf(trace));
  const Outcome cut = Dlhook("dump " + path + " | head -n 1");
  EXPECT_EQ(cut.out, "# file: 1.dlh\n");
  EXPECT_EQ(cut.err, "");
  const Outcome ignored =
      Dlhook(path + "; trap '' PIPE; '" DLHOOK_BINARY "' dump " + path + " | head -n 1");
  EXPECT_EQ(ignored.err, "");
}

TEST_F(CliTest, SaysThatItCannotWrite) {
  const Outcome outcome = Dlhook("report " + WriteTrace() + " >/dev/full");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(outcome.err, "cannot write the output: No space left on device"))
      << outcome.err;
}

}  // namespace
}  // namespace dlhook::analyzer
