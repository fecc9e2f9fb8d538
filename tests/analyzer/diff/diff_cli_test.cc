// `dlhook diff` as a program: exit codes at their limits, output streams, and messages for runs that can't be compared.
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

using testing::Test;

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

class DiffCliTest : public Test {
 protected:
  Outcome Diff(const std::string& words) { return Dlhook("diff " + words); }

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

  // Sixty equal steps of two calls, 1000 ns and `second_ns` apart.
  std::string TraceText(int second_ns, int steps = 60) {
    std::string text = HeaderText("program: '/usr/bin/train' pid: 7") + OpsText();
    for (int step = 0; step < steps; ++step) {
      absl::StrAppend(&text, R"pb(packet { call_batch { thread_id: 1
                                                        op_iid: [ 1, 2 ]
                                                        sequence_delta: [ 0, 0 ]
                                                        duration: [ 300, 400 ]
                                                        parent_distance: [ 0, 0 ]
                                                        base_sequence:)pb",
                      2 * step, " base_end_ticks: ", step * (1000 + second_ns), " end_delta_ticks: [1000, ", second_ns,
                      "] } }\n");
    }
    return absl::StrCat(text, "packet { footer { end: EXITED end_ticks: ", steps * (1000 + second_ns) + 500,
                        " calls: ", 2 * steps, " } }");
  }

  std::string Write(const std::string& name, int second_ns, int steps = 60) {
    return folder_.Write(name, TraceBytesOf(TraceText(second_ns, steps)));
  }

  TemporaryFolder folder_;
};

TEST_F(DiffCliTest, ARunAgainstItselfIsEmptyAndNoFailure) {
  const std::string run = Write("1.dlh", 1000);
  const Outcome outcome = Diff(absl::StrCat(run, " ", run, " --fail-above 0%"));
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(absl::StartsWith(outcome.out, "verdict: no difference: 2.00 us per step on both sides\n(no rows)\n"))
      << outcome.out;
}

TEST_F(DiffCliTest, FailsAboveTheThresholdAndNotAtIt) {
  const std::string base = Write("base.dlh", 1000), new_side = Write("new.dlh", 1060);  // 3 % more, exactly
  const std::string both = absl::StrCat(base, " ", new_side);
  EXPECT_EQ(Diff(both).exit_code, 0) << "nobody asked";
  for (const char* passed : {"2.9", "2.9%", "0", "0%", "1e-3"}) {
    const Outcome outcome = Diff(absl::StrCat(both, " --fail-above ", passed));
    EXPECT_EQ(outcome.exit_code, 1) << passed;
    EXPECT_EQ(outcome.err, "");
    EXPECT_TRUE(
        absl::StartsWith(outcome.out, "verdict: NEW is 3.0 % slower per step (2.00 us -> 2.06 us, noise 0.0 %)"))
        << outcome.out;
  }
  for (const char* held : {"3", "3%", "3.0", "'3 %'", "100%"}) {
    EXPECT_EQ(Diff(absl::StrCat(both, " --fail-above ", held)).exit_code, 0) << held;
  }
  EXPECT_EQ(Diff(absl::StrCat(new_side, " ", base, " --fail-above 0")).exit_code, 0) << "faster";
}

TEST_F(DiffCliTest, ThresholdsThatAreNoPercentageAreRefused) {
  const std::string run = Write("1.dlh", 1000);
  for (const char* wrong : {"-1", "-1%", "fast", "3%%", "%", "nan", "inf"}) {
    const Outcome outcome = Diff(absl::StrCat(run, " ", run, " '--fail-above=", wrong, "'"));
    EXPECT_EQ(outcome.exit_code, 2) << wrong;
    EXPECT_EQ(outcome.out, "") << wrong;
    EXPECT_TRUE(absl::StartsWith(outcome.err, "dlhook: diff: --fail-above expects a percentage that is not negative"))
        << outcome.err;
  }
}

TEST_F(DiffCliTest, SaysWhichSideIsMissingOrNoTrace) {
  const std::string run = Write("1.dlh", 1000), text = folder_.Write("2.dlh", "no trace at all");
  const Outcome missing = Diff(absl::StrCat(folder_.path(), "/none ", run));
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_TRUE(absl::StartsWith(missing.err, "dlhook: diff: BASE: ")) << missing.err;
  const Outcome wrong = Diff(absl::StrCat(run, " ", text));
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.out, "");
  EXPECT_TRUE(absl::StartsWith(wrong.err, "dlhook: diff: NEW: ")) << wrong.err;
  EXPECT_EQ(Diff(run).exit_code, 2) << "one run";
}

TEST_F(DiffCliTest, ADamagedRunIsComparedAsFarAsItIsWhole) {
  const std::string base = Write("base.dlh", 1000);
  const std::string bytes = TraceBytesOf(TraceText(1060));
  const std::string cut = folder_.Write("cut.dlh", bytes.substr(0, bytes.size() - 30) + "\xff\xff\xff\xff");
  const Outcome outcome = Diff(absl::StrCat(base, " ", cut, " --fail-above 1"));
  EXPECT_EQ(outcome.exit_code, 2) << "not 1: the input is bad";
  EXPECT_TRUE(absl::StrContains(outcome.out, "verdict: NEW is 3.0 % slower")) << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.err, "cut.dlh")) << outcome.err;
}

TEST_F(DiffCliTest, RunsWithoutStepsAreComparedAsAWhole) {
  const std::string base = Write("base.dlh", 1000, 1), new_side = Write("new.dlh", 3500, 1);
  const Outcome outcome = Diff(absl::StrCat(base, " ", new_side, " --fail-above 3"));
  EXPECT_EQ(outcome.exit_code, 2) << "neither passed nor failed";
  EXPECT_TRUE(absl::StrContains(outcome.out, "noise not known")) << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.err, "--fail-above: NEW is slower by more than this")) << outcome.err;
}

TEST_F(DiffCliTest, TablesThatCannotBeComparedAreNamed) {
  const std::string run = Write("1.dlh", 1000);
  const Outcome known = Diff(absl::StrCat(run, " ", run, " --table summary"));
  EXPECT_EQ(known.exit_code, 2);
  EXPECT_TRUE(absl::StartsWith(known.err, "dlhook: diff: the table summary cannot be compared")) << known.err;
  const Outcome unknown = Diff(absl::StrCat(run, " ", run, " --table layer"));
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_TRUE(absl::StrContains(unknown.err, "did you mean layers?")) << unknown.err;
}

TEST_F(DiffCliTest, WritesEveryFormatAndAllRowsOnDemand) {
  const std::string both = absl::StrCat(Write("base.dlh", 1000), " ", Write("new.dlh", 1060));
  const auto json = nlohmann::json::parse(Diff(absl::StrCat(both, " --format json --table ops,work")).out);
  ASSERT_EQ(json["tables"].size(), 6u);
  EXPECT_EQ(json["tables"][0]["name"], "verdict");
  EXPECT_EQ(json["tables"][0]["rows"][0][0], "step");
  EXPECT_EQ(json["tables"][1]["name"], "causes");
  EXPECT_EQ(json["tables"][2]["name"], "differences");
  EXPECT_EQ(json["tables"][3]["name"], "findings");
  EXPECT_EQ(json["tables"][4]["name"], "ops");
  EXPECT_EQ(json["environment"], "");
  EXPECT_EQ(json["run"]["processes"].size(), 1u);
  EXPECT_EQ(json["base"]["processes"].size(), 1u);
  const Outcome csv = Diff(absl::StrCat(both, " --format csv --table work"));
  EXPECT_TRUE(absl::StartsWith(
      csv.out,
      "what,direction,change,percent,base,new,noise,verdict,change_from,change_to,why\nstep,,60,3,2000,"
      "2060,0,slower,60,60,"))
      << csv.out;
  EXPECT_TRUE(absl::StrContains(csv.out, "\nlayer,direction,activity,what,model,purpose,problem,change,")) << csv.out;
  EXPECT_TRUE(absl::StrContains(csv.out, "[unattributed],")) << csv.out;
}

TEST_F(DiffCliTest, SeveralRunsASide) {
  const std::string base = absl::StrCat(Write("a1.dlh", 1000), " ", Write("a2.dlh", 1010), " ", Write("a3.dlh", 990));
  const std::string slower =
      absl::StrCat(Write("b1.dlh", 2000), " ", Write("b2.dlh", 2010), " ", Write("b3.dlh", 1990));
  const Outcome outcome = Diff(absl::StrCat("--base ", base, " --new ", slower, " --fail-above 40%"));
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_TRUE(absl::StartsWith(outcome.out, "verdict: NEW is 50 % slower per step (2.00 us -> 3.00 us, noise "))
      << outcome.out;
  EXPECT_TRUE(absl::StrContains(outcome.out, "between runs (3 and 3)")) << outcome.out;
  EXPECT_EQ(Diff(absl::StrCat("--new ", slower, " --base ", base, " --fail-above 60%")).exit_code, 0);
  const std::string one = folder_.path() + "/a1.dlh";
  const Outcome alone = Diff(absl::StrCat("--base=", one, " --new ", slower, " --format json"));
  EXPECT_EQ(alone.exit_code, 0) << alone.err;
  const auto json = nlohmann::json::parse(alone.out);
  EXPECT_EQ(json["more_runs"].size(), 2u);
  EXPECT_FALSE(json.contains("more_bases"));
  const Outcome pair = Diff(absl::StrCat(one, " ", slower.substr(0, slower.find(' ')), " --format json"));
  EXPECT_TRUE(absl::StrContains(pair.out, "is unknown: for that")) << pair.out;
}

TEST_F(DiffCliTest, FoldersWithDifferentRanksOfAJobAreOneRun) {
  const auto part = [&](int pid, int rank) {
    const std::string process = absl::StrCat("pid: ", pid, " } rank_variable { name: 'RANK' value: '", rank, "'");
    return folder_.Write(absl::StrCat(pid, ".dlh"),
                         TraceBytesOf(absl::StrReplaceAll(TraceText(1000), {{"pid: 7", process}})));
  };
  const std::string words = absl::StrCat("--base ", part(11, 0), " ", part(12, 1), " --new ", part(21, 0), " ",
                                         part(22, 1), " ", part(23, 0), " --format json");
  const auto json = nlohmann::json::parse(Diff(words).out);
  EXPECT_EQ(json["base"]["processes"].size(), 2u);
  EXPECT_FALSE(json.contains("more_bases"));
  EXPECT_EQ(json["run"]["processes"].size(), 2u);
  EXPECT_EQ(json["more_runs"].size(), 1u) << "the third has the first one's rank";
}

TEST_F(DiffCliTest, SaysWhatIsWrongWithSeveralRuns) {
  const std::string run = Write("1.dlh", 1000), other = Write("2.dlh", 1000);
  for (const auto& [words, complaint] : std::map<std::string, std::string>{
           {absl::StrCat("--base ", run), "--base needs --new RUN... to compare"},
           {absl::StrCat("--new ", run), "--new needs --base RUN... to compare with"},
           {absl::StrCat(run, " --base ", run, " --new ", other), "found both ('"},
           {absl::StrCat("--base ", run, " ", run, " --new ", other), "1.dlh is given twice"},
           {"--base --new", "--base expects a value: RUN..."},
           {absl::StrCat(run, " ", other, " ", run), "expected only BASE NEW | --base RUN... --new RUN..."}}) {
    const Outcome outcome = Diff(words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_TRUE(absl::StrContains(outcome.err, complaint)) << outcome.err;
  }
}

// `dlhook scaling`, likewise.
TEST_F(DiffCliTest, ScalingComparesManyRuns) {
  const std::string slow = Write("slow.dlh", 2000), fast = Write("fast.dlh", 500);
  const Outcome table = Dlhook(absl::StrCat("scaling ", slow, " ", fast, " --kind strong --format json"));
  ASSERT_EQ(table.exit_code, 0) << table.err;
  const nlohmann::json json = nlohmann::json::parse(table.out);
  const nlohmann::json& rows = json["tables"][0]["rows"];
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0][0], slow);
  size_t speed_up = 0;
  while (json["tables"][0]["columns"][speed_up]["name"] != "speed_up") ++speed_up;
  EXPECT_DOUBLE_EQ(rows[0][speed_up], 1.0);
  EXPECT_NEAR(rows[1][speed_up], 2.0, 0.05);
  const Outcome unknown = Dlhook(absl::StrCat("scaling ", slow, " ", fast));
  EXPECT_EQ(unknown.exit_code, 0);
  EXPECT_TRUE(absl::StrContains(unknown.out, "--kind strong")) << unknown.out;
}

TEST_F(DiffCliTest, ScalingSaysWhatIsWrong) {
  const std::string run = Write("run.dlh", 500), other = Write("other.dlh", 600),
                    stepless = Write("stepless.dlh", 500, 1);
  for (const auto& [words, complaint] : std::map<std::string, std::string>{
           {run, "RUN RUN..."},
           {absl::StrCat(run, " ", run), "the same run is given twice"},
           {absl::StrCat(run, " ", other, " --kind linear"), "--kind expects auto, strong or weak, found 'linear'"},
           {absl::StrCat(run, " ", other, " --format xml"), "unknown format 'xml'"},
           {absl::StrCat(run, " ", stepless), "no steady steps were found in it"},
           {absl::StrCat(run, " ", folder_.path(), "/nothing"), "nothing"}}) {
    const Outcome outcome = Dlhook("scaling " + words);
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.out, "") << words;
    EXPECT_TRUE(absl::StrContains(outcome.err, complaint)) << outcome.err;
  }
}

}  // namespace
}  // namespace dlhook::analyzer
