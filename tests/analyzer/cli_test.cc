// The program itself: what it prints to which stream, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "analyzer/cli/command.h"
#include "analyzer/cli/tables.h"
#include "analyzer/findings/findings_table.h"
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
    FILE* pipe = popen(absl::StrCat("'" DLHOOK_BINARY "' ", words, " 2>'", err_path, "'").c_str(), "r");
    Outcome outcome;
    char buffer[4096];
    for (size_t count; (count = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) outcome.out.append(buffer, count);
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

  std::string WriteTrace(const std::string& name = "1.dlh") { return folder_.Write(name, TraceBytesOf(TraceText())); }

  TemporaryFolder folder_;
};

TEST_F(CliTest, ReportsEveryTableInEveryFormat) {
  const std::string trace = WriteTrace();
  for (const std::string format : {"text", "csv", "json"}) {
    const Outcome outcome = Dlhook(absl::StrCat("report ", trace, " --format ", format));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(outcome.err.empty(), format != "csv") << outcome.err;
    EXPECT_NE(outcome.out, "");
  }
}

TEST_F(CliTest, ReportsTheTablesAskedForInThatOrder) {
  const std::string trace = WriteTrace();
  const auto json = nlohmann::json::parse(
      Dlhook(absl::StrCat("report --table ops,summary --format=json ", trace, " --table ops --table=gemm")).out);
  ASSERT_EQ(json["tables"].size(), 3u);
  EXPECT_EQ(json["tables"][0]["name"], "ops");
  EXPECT_EQ(json["tables"][1]["name"], "summary");
  EXPECT_EQ(json["tables"][2]["name"], "gemm");
  EXPECT_EQ(json["run"]["name"], "1.dlh");
  EXPECT_EQ(json["run"]["wall_ns"], 2300);
}

TEST_F(CliTest, SaysBesideCsvWhatHasNoPlaceInIt) {
  const std::string open = folder_.Write("open.dlh", TraceBytesOf(HeaderText("pid: 7") + OpsText()));
  const std::string words = absl::StrCat("report ", open, " --table layers --format ");
  const std::vector<std::string> said = absl::StrSplit(Dlhook(words + "csv").err, '\n', absl::SkipEmpty());
  const std::string text = Dlhook(words + "text").out;
  ASSERT_FALSE(said.empty());
  for (const std::string& line : said) {
    EXPECT_TRUE(absl::StartsWith(line, "dlhook: ")) << line;
    const std::string start = line.substr(line.find(": ") + 2, 15);
    EXPECT_TRUE(absl::StrContains(text, start) || absl::StartsWith(start, "layers: ")) << line << text;
  }
  EXPECT_THAT(said, testing::Contains(testing::StartsWith("dlhook: open: the trace open.dlh has no end")));
}

TEST_F(CliTest, SortsAndLimits) {
  const std::string trace = WriteTrace();
  const Outcome all = Dlhook(absl::StrCat("report ", trace, " --table ops --format csv"));
  const Outcome one = Dlhook(absl::StrCat("report ", trace, " --table ops --format csv --sort calls --limit 1"));
  EXPECT_EQ(one.exit_code, 0) << one.err;
  const std::vector<std::string> lines = absl::StrSplit(one.out, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), 2u) << one.out;
  EXPECT_TRUE(absl::StartsWith(all.out, lines[0])) << all.out;
}

TEST_F(CliTest, FindingsToIgnoreAreOfRulesThatThereAre) {
  const std::string trace = WriteTrace();
  EXPECT_THAT(Dlhook("report " + trace + " --ignore foat64").err,
              testing::StartsWith("dlhook: report: unknown rule 'foat64'; did you mean float64? Expected one of: "));
  const std::string file = folder_.Write("ignored", "# on purpose\n\nfloat64:fc1  # so\ninput\n");
  const Outcome outcome = Dlhook("report " + trace + " --ignore-file " + file);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("ignored:4: unknown rule 'input'"));
  ExpectUsageError("report " + trace + " --ignore-file nowhere",
                   "report: --ignore-file: can't read nowhere: cannot open: No such file or directory");
}

TEST_F(CliTest, NamesWhatIsWrongInACommandLine) {
  const std::string trace = WriteTrace();
  EXPECT_TRUE(absl::StartsWith(
      Dlhook("reprot").err, "dlhook: unknown command 'reprot'; did you mean report? Expected one of: run, report, "));
  EXPECT_EQ(Dlhook("reprot").exit_code, 2);
  EXPECT_TRUE(absl::StartsWith(Dlhook("zzz").err, "dlhook: unknown command 'zzz'; expected one of: run, "));
  ExpectUsageError("ctl stop", "ctl: expected start|stop|status RUN, found only 'stop' (see dlhook help ctl)");
  ExpectUsageError("ctl stpo " + folder_.path(),
                   "ctl: unknown action 'stpo'; did you mean stop? Expected one of: start, stop, status");
  ExpectUsageError(
      "ctl stop /none",
      "ctl: /none: no such folder; expected the folder of a run that is going on (dlhook run -o RUN, or DLHOOK_OUT)");
  ExpectUsageError("ctl stop " + folder_.path(), "ctl: " + folder_.path() +
                                                     ": no process recorded into this folder is alive; recording can "
                                                     "be started and stopped only while the program runs");
  const std::string flags =
      "--table, --format, --html, --sort, --by, --step, --interval, --depth, --evidence, --function, --only, --limit, "
      "--calibration, --ignore, --ignore-file, --explain, --color, --help (see dlhook help report)";
  ExpectUsageError("report --tabel ops " + trace,
                   "report: unknown flag '--tabel'; did you mean --table? Expected one of: " + flags);
  ExpectUsageError("report -x " + trace, "report: unknown flag '-x'; expected one of: " + flags);
  ExpectUsageError("report " + trace + " --table",
                   "report: --table expects a value: NAME[,NAME]... (see dlhook help report)");
  ExpectUsageError("report --help=x", "report: --help takes no value (see dlhook help report)");
  ExpectUsageError("export a b", "export: expected only RUN, found 'b' too (see dlhook help export)");
  ExpectUsageError("report " + trace + " --format xml",
                   "report: unknown format 'xml'; expected one of: text, csv, json, markdown");
  ExpectUsageError("report " + trace + " --limit many", "report: --limit expects a number of rows, found 'many'");
  ExpectUsageError("report " + trace + " --by colour",
                   "report: unknown word of --by 'colour'; expected one of: layer, module, type, op, line, function, "
                   "stack, phase, step, "
                   "scope, thread, library");
  ExpectUsageError(
      "report " + trace + " --by modul",
      "report: unknown word of --by 'modul'; did you mean module? Expected one of: layer, module, type, op, "
      "line, function, stack, phase, step, scope, thread, library");
  ExpectUsageError("calibrate --python /no/python", "calibrate: --python: /no/python: no such program");
  ExpectUsageError(
      "report " + trace + " --depth -1",
      "report: --depth expects a number of parts of a name (layer1.0.conv2 has three; 0: all of them), found '-1'");
  ExpectUsageError("report " + trace + " --evidence none", "report: --evidence expects all or structure, found 'none'");
  ExpectUsageError("report " + trace + " --limit -3", "report: --limit expects a number of rows, found '-3'");
  ExpectUsageError("report " + trace + " --color red", "report: --color expects auto, always or never, found 'red'");
  ExpectUsageError("dump", "dump: expected RUN, found nothing (see dlhook help dump)");
  ExpectUsageError("dump --table x", "dump: unknown flag '--table'; expected one of: --help (see dlhook help dump)");
  ExpectUsageError("report /none",
                   "report: /none: no such file or folder; expected a run (a folder with *.dlh files) or one "
                   "process trace");
}

TEST_F(CliTest, ListsTablesAndColumnsWhereOneIsUnknown) {
  const std::string trace = WriteTrace();
  const Outcome table = Dlhook("report " + trace + " --table ops,oops");
  EXPECT_EQ(table.exit_code, 2);
  EXPECT_TRUE(absl::StartsWith(
      table.err, "dlhook: report: unknown table 'oops'; did you mean ops? Expected one of: findings, summary, "))
      << table.err;
  const Outcome column = Dlhook("report " + trace + " --table ops --sort colour");
  EXPECT_EQ(column.exit_code, 2);
  EXPECT_EQ(column.out, "");
  EXPECT_TRUE(
      absl::StartsWith(column.err, "dlhook: report: unknown column 'colour' to sort by; expected one of: kind, "))
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

TEST_F(CliTest, HelpsWithEveryCommandByExample) {
  for (const Command& command : Commands()) {
    ASSERT_FALSE(command.examples.empty()) << command.name;
    const std::string help = Dlhook(absl::StrCat("help ", command.name)).out;
    for (const Example& example : command.examples) {
      EXPECT_TRUE(absl::StrContains(help, example.command)) << command.name;
      EXPECT_TRUE(absl::StrContains(example.command, absl::StrCat("dlhook ", command.name))) << example.command;
    }
    for (absl::string_view line : absl::StrSplit(help, '\n')) EXPECT_LE(line.size(), 100u) << line;
  }
  for (absl::string_view line : absl::StrSplit(Dlhook("help").out, '\n')) EXPECT_LE(line.size(), 80u) << line;
}

// Examples that do not parse would be worse than none.
TEST_F(CliTest, ParsesItsOwnExamples) {
  for (const Command& command : Commands()) {
    for (const Example& example : command.examples) {
      const std::string begin = absl::StrCat("dlhook ", command.name);
      std::string words(example.command.substr(example.command.find(begin) + begin.size()));
      words.resize(std::min(words.size(), words.find_first_of("|>&")));
      const std::vector<std::string> list = absl::StrSplit(words, ' ', absl::SkipEmpty());
      EXPECT_TRUE(ParseArgs(command, list).ok()) << example.command;
    }
  }
}

TEST_F(CliTest, ExplainsEveryColumn) {
  const absl::StatusOr<std::vector<Table>> tables = EmptyTables();
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->size(), ReportTables().size());
  for (const Table& table : *tables) {
    EXPECT_FALSE(table.columns.empty()) << table.name;
    for (const Column& column : table.columns) {
      EXPECT_TRUE(absl::EndsWith(column.explanation, ".")) << table.name << "." << column.name;
      const auto text = Explain(*tables, absl::StrCat(table.name, ".", column.name), 80, false);
      ASSERT_TRUE(text.ok()) << text.status();
      EXPECT_TRUE(absl::StartsWith(*text, column.name)) << *text;
    }
  }
}

// The columns that `--explain` describes, from an empty run, must be those of every run.
TEST_F(CliTest, ExplainsTheColumnsThatRunsHave) {
  const std::string trace = WriteTrace();
  const auto report = nlohmann::json::parse(Dlhook("report --table all --format json " + trace).out);
  for (const auto& table : report["tables"]) {
    const std::string glossary = Dlhook(absl::StrCat("report --explain ", std::string(table["name"]))).out;
    for (const auto& column : table["columns"]) {
      EXPECT_TRUE(absl::StrContains(absl::StrCat("\n", glossary), absl::StrCat("\n", std::string(column["name"]))))
          << table["name"] << column["name"];
    }
  }
}

TEST_F(CliTest, ExplainsOneColumnATableOrAll) {
  EXPECT_EQ(Dlhook("report --explain gemm.m").out, Dlhook("report --explain m").out);
  EXPECT_EQ(Dlhook("report --explain mean_time").out.substr(0, 31), "mean_time (ns, less is better)\n");
  EXPECT_TRUE(absl::StrContains(Dlhook("report --explain ops").out, "\n    Longest call.\n    In table ops\n"));
  EXPECT_TRUE(
      absl::StartsWith(Dlhook("report --explain reorder").out, "reorder, layout conversion\n    an op that conv"));
  EXPECT_TRUE(absl::StartsWith(Dlhook("report --explain compiledfunction").out, "CompiledFunction, "));
  EXPECT_TRUE(absl::StartsWith(Dlhook("report --explain x6").out, "xN\n"));
  const std::string all = Dlhook("report --explain all").out;
  EXPECT_TRUE(absl::StrContains(all, "\nround_trip_calls"));
  EXPECT_TRUE(absl::StrContains(all, "\nmicro_steps"));
  // Of runs with GPUs, with thread states.
  EXPECT_TRUE(absl::StartsWith(Dlhook("report --explain layers.hfu").out, "hfu (%, more is better)"));
  EXPECT_TRUE(absl::StartsWith(Dlhook("report --explain phases.blocked_in").out, "blocked_in"));
  ExpectUsageError("report --explain wal_share",
                   "report: --explain: no table has a column 'wal_share', and the glossary no such word; did you mean "
                   "wall_share? --explain all "
                   "explains every column, --explain TABLE those of one table");
  EXPECT_TRUE(absl::StrContains(Dlhook("report --explain ops.m").err, "no table has a column 'ops.m'"));
}

TEST_F(CliTest, SaysWhereByMeansNothing) {
  const std::string trace = WriteTrace();
  ExpectUsageError(
      "report " + trace + " --table layers,ops --by type",
      "report: --by has no meaning for the table ops, only for layers, counters, hotspots and threads; work has every "
      "op by layer");
  ExpectUsageError("report " + trace + " --table threads --by layer",
                   "report: --by of the table threads expects line, function, stack or thread, found 'layer'");
  ExpectUsageError("report " + trace + " --table layers --by phase",
                   "report: --by of the table layers expects layer, module, type, op, line, function or stack, found "
                   "'phase'");
  EXPECT_EQ(Dlhook("report " + trace + " --table layers --by type").exit_code, 0);
  EXPECT_TRUE(absl::StartsWith(Dlhook("report " + trace + " --by phase").out, "counters:"));
  ExpectUsageError("report " + trace + " --table gemm --step validation",
                   "report: --step has no meaning for the table gemm, only for layers; phases has all kinds of steps");
  ExpectUsageError("report --table gemm --only library " + trace,
                   "report: --only has no meaning for the table gemm, only for stacks");
  ExpectUsageError("report " + trace + " --step evaluation",
                   "report: --step expects training, validation or inference, found 'evaluation'");
}

TEST_F(CliTest, ColoursOnlyWhenAsked) {
  const std::string trace = WriteTrace();
  const std::string plain = Dlhook("report --table all " + trace).out;
  EXPECT_FALSE(absl::StrContains(plain, "\033")) << "a pipe is no terminal";
  const std::string coloured = Dlhook("report --table all --color always " + trace).out;
  EXPECT_TRUE(absl::StrContains(coloured, "\033[1m"));
  EXPECT_EQ(std::regex_replace(coloured, std::regex("\033\\[[0-9;]*m"), ""), plain);
  EXPECT_FALSE(absl::StrContains(Dlhook("report --color always --format csv " + trace).out, "\033"));
}

TEST_F(CliTest, ReportsTheWholePacketsOfADamagedTrace) {
  const std::string bytes = TraceBytesOf(TraceText());
  const std::string trace = folder_.Write("1.dlh", bytes.substr(0, bytes.size() - 3));
  const Outcome outcome = Dlhook("report --table ops --format csv " + trace);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(outcome.out, "outer")) << outcome.out;
  const std::vector<std::string> said = absl::StrSplit(outcome.err, '\n', absl::SkipEmpty());
  EXPECT_TRUE(absl::StartsWith(said.back(), "dlhook: " + trace + ": byte ")) << outcome.err;
  EXPECT_TRUE(absl::StrContains(outcome.err, "cut off inside a packet: expected "));
  EXPECT_TRUE(absl::EndsWith(outcome.err, "; the tables show what is whole\n")) << outcome.err;
}

TEST_F(CliTest, RefusesWhatIsNoTrace) {
  for (const std::string command : {"report", "dump"}) {
    const Outcome foreign = Dlhook(command + " " + folder_.Write("foreign", "#!/bin/sh\n"));
    EXPECT_EQ(foreign.exit_code, 2);
    EXPECT_TRUE(absl::StrContains(foreign.err,
                                  "/foreign: not a dlhook trace (byte 0: expected the start of a packet (0x0a), "
                                  "found 0x23)"));
    const Outcome empty = Dlhook(command + " " + folder_.Write("empty", ""));
    EXPECT_EQ(empty.exit_code, 2);
    EXPECT_TRUE(absl::StrContains(empty.err, "/empty: the file is empty; expected a dlhook trace"));
    const Outcome newer =
        Dlhook(command + " " + folder_.Write("newer", TraceBytesOf("packet { header { schema_major: 2 } }")));
    EXPECT_EQ(newer.exit_code, 2);
    EXPECT_TRUE(absl::StrContains(newer.err, "/newer: schema version 2.0"));
    EXPECT_TRUE(absl::EndsWith(newer.err, "; read it with the dlhook that wrote it\n")) << newer.err;
  }
}

TEST_F(CliTest, DumpsWhatParsesAgain) {
  WriteTrace("b.dlh");
  WriteTrace("a.dlh");
  const Outcome outcome = Dlhook("dump " + folder_.path());
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(absl::StartsWith(outcome.out, "# file: a.dlh\npacket {\n  header {\n    schema_major: 1\n"))
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
  const Outcome ignored = Dlhook(path + "; trap '' PIPE; '" DLHOOK_BINARY "' dump " + path + " | head -n 1");
  EXPECT_EQ(ignored.err, "");
}

TEST_F(CliTest, SaysThatItCannotWrite) {
  const Outcome outcome = Dlhook("report " + WriteTrace() + " >/dev/full");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(outcome.err, "cannot write the output: No space left on device")) << outcome.err;
}

}  // namespace
}  // namespace dlhook::analyzer
