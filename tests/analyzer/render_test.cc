// One table in every format, byte for byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "analyzer/render/renderer.h"
#include "analyzer/render/text_columns.h"
#include "analyzer/table/table_ops.h"

namespace dlhook::analyzer {
namespace {

Table SmallTable() {
  Table table;
  table.name = "ops";
  table.title = "what was computed";
  table.columns = {{"problem", "", ColumnType::kText, Better::kNeither, "the problem"},
                   {"calls", "", ColumnType::kInteger, Better::kNeither, ""},
                   {"total_ns", "ns", ColumnType::kInteger, Better::kLower, ""},
                   {"gflops", "GFLOP/s", ColumnType::kReal, Better::kHigher, ""}};
  table.rows = {{std::string("m1, \"n2\""), int64_t{12}, int64_t{1'234'567}, 3.25},
                {std::string("k3"), int64_t{0}, std::monostate(), std::monostate()}};
  table.notes = {"A note."};
  return table;
}

TraceModel SmallRun() {
  TraceModel run;
  run.name = "my run";
  run.end_ns = 5000;
  ProcessInfo process;
  process.file = "1.dlh";
  process.has_footer = true;
  process.end = ProcessEnd::kExited;
  process.pid = 7;
  process.program = "python3";
  Loss loss;
  loss.reason = LossReason::kRingFull;
  loss.calls = 3;
  process.losses.push_back(loss);
  Capability capability;
  capability.name = "onednn-tap";
  capability.object = "x.so";
  capability.state = CapabilityState::kRefused;
  capability.reason = "unknown build";
  process.capabilities.push_back(capability);
  run.processes.push_back(process);
  run.oddities["a strange thing"] = 2;
  for (int i = 0; i < 2; ++i) run.scopes.look.push_back({});
  run.modules.emplace_back();
  return run;
}

std::string Render(const TraceModel& run, const std::vector<Table>& tables, std::string (*render)(const Report&)) {
  return render({&run, tables, 80});
}

TEST(Render, TextIsAlignedAndSaysWhatIsMissing) {
  EXPECT_EQ(Render(SmallRun(), {SmallTable()}, RenderText),
            "ops: what was computed\n"
            "                           gflops\n"
            "problem   calls    total  GFLOP/s\n"
            "--------  -----  -------  -------\n"
            "m1, \"n2\"     12  1.23 ms     3.25\n"
            "k3            0        -        -\n"
            "A note.\n"
            "\n"
            "lost: 3 calls: the drain did not keep up with the calls\n"
            "refused: onednn-tap of x.so: unknown build\n"
            "odd: a strange thing, 2 times\n");
}

TEST(Render, TextSaysNothingMoreWhereAllIsWell) {
  TraceModel run;
  EXPECT_TRUE(absl::EndsWith(Render(run, {SmallTable()}, RenderText), "A note.\n"));
}

TEST(Render, TextFitsIntoTheWidthByShorteningText) {
  Table table = SmallTable();
  table.rows[0][0] = std::string(300, 'a') + "end";
  const std::string text = Render(TraceModel(), {table}, RenderText);
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 80u) << text.substr(begin, end - begin);
    begin = end + 1;
  }
  EXPECT_TRUE(absl::StrContains(text, "aa..aa"));
  EXPECT_TRUE(absl::StrContains(text, "aaend "));
}

TEST(Render, SentencesStandInFullBelowTheirRows) {
  Table table = SmallTable();
  for (const char* name : {"finding", "advice", "basis", "evidence"})
    table.columns.push_back({name, "", ColumnType::kText, Better::kNeither, ""});
  for (Row& row : table.rows) {
    for (const char* text : {"It is slow for a long sentence's reason.", "Do something else.", "computed", "table ops"})
      row.emplace_back(std::string(text));
  }
  table.sentences_from = "finding";
  const std::string begin =
      "ops: what was computed\nm1, \"n2\", 12, 1.23 ms, 3.25\n    It is slow for a long sentence's";
  const std::string end = "    -> Do something else.\n    basis: computed; evidence: table ops.\nk3, 0\n    It is";
  EXPECT_TRUE(absl::StartsWith(RenderText({.run = nullptr, .tables = {table}, .width = 80}),
                               absl::StrCat(begin, " reason.\n", end)));
  EXPECT_TRUE(absl::StartsWith(RenderText({.run = nullptr, .tables = {table}, .width = 43}),
                               absl::StrCat(begin, "\n    reason.\n", end)));
}

TEST(Render, TextKeepsControlCharactersOfTheTraceFromTheTerminal) {
  Table table = SmallTable();
  table.rows[0][0] = std::string("x\033[2J\ny");
  EXPECT_TRUE(absl::StrContains(Render(TraceModel(), {table}, RenderText), "x\\x1b[2J\\ny"));
}

Table ConvolutionTable() {
  Table table;
  table.name = "ops";
  table.columns = {{"kind", "", ColumnType::kText, Better::kNeither, ""},
                   {"direction", "", ColumnType::kText, Better::kNeither, ""},
                   {"problem", "", ColumnType::kText, Better::kNeither, ""},
                   {"percent", "%", ColumnType::kReal, Better::kLower, ""},
                   {"total_time", "ns", ColumnType::kInteger, Better::kLower, ""},
                   {"functions", "", ColumnType::kText, Better::kNeither, "", /*detail=*/true}};
  table.rows = {{std::string("convolution"), std::string("backward-weights"),
                 std::string("mb60_ic6oc16_ih14oh10kh5sh1dh0ph0_iw14ow10kw5sw1dw0pw0"), 10.0, int64_t{1500},
                 std::string("onednn:exec")},
                {std::string("reorder"), std::string("unknown"), std::string("8x16 ab->ba"), 9.9, std::monostate(),
                 std::string("onednn:exec")}};
  return table;
}

TEST(Render, TextTakesShorterWordsBeforeItCutsAnything) {
  const TraceModel run;
  const auto render = [&](int width) {
    return RenderText({.run = &run, .tables = {ConvolutionTable()}, .width = width});
  };
  EXPECT_EQ(render(100),
            "ops\n"
            "                                                              total\n"
            "kind         direction         problem             percent     time  functions\n"
            "-----------  ----------------  ------------------  -------  -------  -----------\n"
            "convolution  backward-weights  60x6x14x14 oc16 k5    10.0%  1.50 us  onednn:exec\n"
            "reorder      -                 8x16 ab->ba            9.9%        -  onednn:exec\n");
  EXPECT_EQ(render(75),
            "ops\n"
            "                                                     total\n"
            "kind     direction    problem             percent     time  functions\n"
            "-------  -----------  ------------------  -------  -------  -----------\n"
            "conv     bwd-weights  60x6x14x14 oc16 k5    10.0%  1.50 us  onednn:exec\n"
            "reorder  -            8x16 ab->ba            9.9%        -  onednn:exec\n");
  EXPECT_TRUE(absl::StrContains(render(62), "(no room for 1 of the columns: functions; --format csv"));
}

TEST(Render, NamesThatWouldLookAlikeKeepTheirEnds) {
  const std::vector<std::string> texts = {"encoder.layer.10.attention.query.dense",
                                          "encoder.layer.11.attention.query.dense",
                                          "pooler.activation.of.the.first.token", "fc"};
  const std::vector<std::string> cut = ShortenedApart(texts, 26);
  EXPECT_EQ(cut[0], "..10.attention.query.dense");
  EXPECT_EQ(cut[1], "..11.attention.query.dense");
  EXPECT_EQ(cut[2], Shortened(texts[2], 26));
  EXPECT_EQ(cut[3], "fc");
  const auto attention = [](int layer) {
    return absl::StrCat("bert.encoder.layer.", layer, ".attention.self:scaled_dot_product_attention");
  };
  EXPECT_EQ(ShortenedApart({attention(3), attention(12)}, 35),
            (std::vector<std::string>{"..der.layer.3..ot_product_attention", "..er.layer.12..ot_product_attention"}))
      << "where the ends are alike, too";
}

// Relative luminance (WCAG) of one of the 216 colours of the cube that begins at 16.
double Luminance(int color) {
  constexpr double kLevels[] = {0, 95, 135, 175, 215, 255};
  const auto linear = [&](int level) { return std::pow((kLevels[level] / 255 + 0.055) / 1.055, 2.4); };
  color -= 16;
  return 0.2126 * linear(color / 36) + 0.7152 * linear(color / 6 % 6) + 0.0722 * linear(color % 6);
}

TEST(Render, ColoursAreReadableOnWhiteAndOnBlack) {
  const TraceModel run = SmallRun();
  const std::string text = RenderText({.run = &run, .tables = {ConvolutionTable()}, .width = 100, .color = true});
  const std::regex codes("\033\\[([0-9;]*)m");
  std::set<std::string> seen;
  for (std::sregex_iterator code(text.begin(), text.end(), codes), end; code != end; ++code) seen.insert((*code)[1]);
  int colors = 0;
  for (const std::string& code : seen) {
    if (code.size() == 1) continue;  // bold, faint, the end
    const size_t place = code.find("38;5;");
    ASSERT_NE(place, std::string::npos) << code << ": what a theme makes of it is not known";
    const double luminance = Luminance(std::stoi(code.substr(place + 5)));
    EXPECT_GT(1.05 / (luminance + 0.05), 4) << code << " on white";
    EXPECT_GT((luminance + 0.05) / 0.05, 4) << code << " on black";
    ++colors;
  }
  EXPECT_EQ(colors, 3);
}

TEST(Render, ColourSurroundsWordsAndLeavesTheRest) {
  const TraceModel run = SmallRun();
  const auto render = [&](bool color) {
    return RenderText({.run = &run, .tables = {ConvolutionTable()}, .width = 100, .color = color});
  };
  const std::string text = render(true);
  EXPECT_TRUE(absl::StrContains(text, "\033[1;38;5;30mops\033[0m\n"));
  EXPECT_TRUE(absl::StrContains(text, "\033[1mproblem\033[0m             "));
  EXPECT_TRUE(absl::StrContains(text, "   \033[1;38;5;132m10.0%\033[0m  1.50 \033[2mus\033[0m"))
      << "a tenth of the time";
  EXPECT_TRUE(absl::StrContains(text, "    9.9%  ")) << "less than that";
  EXPECT_TRUE(absl::StrContains(text, "\033[38;5;130mlost\033[0m: 3 calls"));
  EXPECT_EQ(std::regex_replace(text, std::regex("\033\\[[0-9;]*m"), ""), render(false));
}

TEST(ShortForms, TellTheEssentialsOfAProblem) {
  EXPECT_EQ(HumanProblem("mb60_ic6oc16_ih14oh10kh5sh1dh0ph0_iw14ow10kw5sw1dw0pw0"), "60x6x14x14 oc16 k5");
  EXPECT_EQ(HumanProblem("mb8_ic3oc16_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1 implicit_gemm"),
            "8x3x32x32 oc16 k3 p1 implicit_gemm");
  EXPECT_EQ(HumanProblem("g8mb2_ic8oc8_ih9oh5kh3sh2dh0ph1_iw9ow9kw1sw1dw0pw0"), "2x8x9x9 oc8 k3x1 s2x1 p1x0 g8");
  EXPECT_EQ(HumanProblem("mb1_ic4oc4_ih16oh12kh3sh1dh1ph0_iw16ow12kw3sw1dw1pw0"), "1x4x16x16 oc4 k3 d2");
  EXPECT_EQ(HumanProblem("mb2_ic16oc8_ih8oh16kh2sh2dh0ph0_iw8ow16kw2sw2dw0pw0"), "2x16x8x8 oc8 k2 s2 o16")
      << "a deconvolution's output does not follow by a convolution's formula";
  EXPECT_EQ(HumanProblem("mb8ic64_ih16oh8kh2sh2dh0ph0_iw16ow8kw2sw2dw0pw0 pooling_max"),
            "8x64x16x16 k2 s2 pooling_max");
  EXPECT_EQ(HumanProblem("mb1_ic2oc3_id4od4kd1sd1dd0pd0_ih5oh5kh1sh1dh0ph0_iw6ow6kw1sw1dw0pw0"), "1x2x4x5x6 oc3 k1");
  EXPECT_EQ(HumanProblem("mb8ic1152oc10"), "8x1152 oc10");
}

TEST(ShortForms, LeaveWhatTheyDoNotKnow) {
  for (const std::string text :
       {"m120 n60 k400 TN f32", "60x6x28x28 abcd->aBcd16b", "l1t6mb4sic32slc16dhc32dic32", "mb8ic16ih30iw30ls5beta0.75",
        "mb8_ic3oc16_ih-1oh32", "mb99999999999ic3ih9iw9", "", "conv1"}) {
    EXPECT_EQ(HumanProblem(text), text);
  }
  EXPECT_EQ(ShortWord("search:convolution"), "search:conv");
  EXPECT_EQ(ShortWord("convolution1"), "convolution1");
}

TEST(TextColumns, ShortensCppNamesByTheirNamespaces) {
  EXPECT_EQ(Shortened("torch::autograd::AccumulateGrad", 20), "AccumulateGrad");
  EXPECT_EQ(Shortened("aten::max_pool2d_with_indices", 16), "max_poo..indices");
  EXPECT_EQ(Shortened("void f<at::native::Add>(int)", 16), "void f<..d>(int)");
  EXPECT_EQ(Shortened("aten::add", 20), "aten::add");
}

TEST(Render, CsvQuotesAndLeavesUnknownEmpty) {
  EXPECT_EQ(Render(SmallRun(), {SmallTable(), SmallTable()}, RenderCsv),
            "problem,calls,total_ns,gflops\n"
            "\"m1, \"\"n2\"\"\",12,1234567,3.25\n"
            "k3,0,,\n"
            "\n"
            "problem,calls,total_ns,gflops\n"
            "\"m1, \"\"n2\"\"\",12,1234567,3.25\n"
            "k3,0,,\n");
}

TEST(Render, MarkdownHasTheValuesOfText) {
  const std::string expected =
      "## ops: what was computed\n\n"
      "| problem | calls | total | gflops GFLOP/s |\n"
      "| --- | ---: | ---: | ---: |\n"
      "| m1, \"n2\" | 12 | 1.23 ms | 3.25 |\n"
      "| k3 | 0 | - | - |\n"
      "\nA note.\n"
      "\nlost: 3 calls: ";
  EXPECT_EQ(Render(SmallRun(), {SmallTable()}, RenderMarkdown).substr(0, expected.size()), expected);
}

TEST(Render, JsonKeepsItsContract) {
  const auto json = nlohmann::json::parse(Render(SmallRun(), {SmallTable()}, RenderJson));
  ASSERT_EQ(json.size(), 2u);
  const auto& table = json["tables"][0];
  EXPECT_EQ(table["name"], "ops");
  EXPECT_EQ(table["columns"][2]["name"], "total_ns");
  EXPECT_EQ(table["columns"][2]["unit"], "ns");
  EXPECT_EQ(table["columns"][2]["type"], "integer");
  EXPECT_EQ(table["columns"][0]["type"], "text");
  EXPECT_EQ(table["columns"][3]["type"], "real");
  EXPECT_EQ(table["rows"], nlohmann::json::parse(R"([["m1, \"n2\"", 12, 1234567, 3.25], ["k3", 0, null, null]])"));
  EXPECT_EQ(table["notes"][0], "A note.");
  const auto& run = json["run"];
  EXPECT_EQ(run["name"], "my run");
  EXPECT_EQ(run["wall_ns"], 5000);
  EXPECT_EQ(run["processes"][0]["pid"], 7);
  EXPECT_EQ(run["processes"][0]["program"], "python3");
  EXPECT_EQ(run["processes"][0]["end"], "exited");
  EXPECT_EQ(run["losses"][0]["reason"], "ring_full");
  EXPECT_EQ(run["losses"][0]["calls"], 3);
  EXPECT_EQ(run["capabilities"][0]["state"], "refused");
  EXPECT_EQ(run["oddities"][0]["count"], 2);
  EXPECT_EQ(run["scopes"], 2);
  EXPECT_EQ(run["python_modules"], 1);
}

TEST(Render, TextSaysWhatOfScopesIsMissing) {
  TraceModel run;
  run.processes.emplace_back();
  run.processes[0].has_footer = true;
  Loss loss;
  loss.reason = LossReason::kScopesTooDeep;
  loss.calls = 7;
  run.processes[0].losses.push_back(loss);
  EXPECT_EQ(RunRemarks(run),
            std::vector<std::string>{"lost: 7 scopes: more were open at once than a thread can track"});
}

TEST(Render, TextSaysOfSeveralPrograms) {
  TraceModel run;
  run.processes.resize(3);
  for (uint32_t i = 0; i < 3; ++i) {
    run.processes[i].pid = i + 1;
    run.processes[i].script = "train.py";
    run.processes[i].has_footer = true;
  }
  EXPECT_EQ(RunRemarks(run).size(), 0u);  // ranks
  run.processes[2].script = "worker.py";
  run.processes[2].parent_pid = 1;
  EXPECT_EQ(RunRemarks(run).size(), 0u);
  run.processes[2].parent_pid = 0;
  ASSERT_EQ(RunRemarks(run).size(), 1u);
  EXPECT_EQ(RunRemarks(run)[0].rfind("programs: train.py, worker.py, of which none started another: ", 0), 0u);
}

TEST(Render, TextSaysWhatOfReadingsIsMissing) {
  TraceModel run;
  run.processes.emplace_back();
  run.processes[0].has_footer = true;
  Loss loss;
  loss.reason = LossReason::kReadingsDropped;
  loss.calls = 1;
  loss.detail = "ring full";
  run.processes[0].losses.push_back(loss);
  EXPECT_EQ(RunRemarks(run), std::vector<std::string>{
                                 "lost: 1 reading of counters: the thread's next reading holds the sum (ring full)"});
}

TEST(Render, TextSaysOfLostSamplesWhereTheyMatter) {
  TraceModel run;
  run.processes.emplace_back();
  run.processes[0].has_footer = true;
  Loss loss;
  loss.reason = LossReason::kSamplesDropped;
  loss.calls = 2;
  run.processes[0].losses.push_back(loss);
  run.samples.time_ns.resize(400);
  EXPECT_EQ(RunRemarks(run).size(), 1u);
  run.samples.time_ns.resize(401);
  EXPECT_EQ(RunRemarks(run).size(), 0u);
}

TEST(Render, TextSaysWhereTimesOfGpusLackAndWhatWasLost) {
  TraceModel run;
  run.processes.resize(2);
  for (ProcessInfo& process : run.processes) process.has_footer = true;
  run.processes[0].file = "1.dlh";
  Loss loss;
  loss.reason = LossReason::kGpuBuffersFull;
  loss.calls = 9;
  run.processes[0].losses.push_back(loss);
  loss.reason = LossReason::kGpuRecordsDropped;
  loss.detail = "ring full";
  run.processes[0].losses.push_back(loss);
  run.gpu_windows = {{0, 0, 100, GpuTimeSource::kCupti, ""},
                     {0, 100, 1'000'100, GpuTimeSource::kNone, "the program uses CUPTI itself"},
                     {0, 1'000'100, 2'000'000, GpuTimeSource::kCupti, ""},
                     {0, 2'000'000, 4'000'000, GpuTimeSource::kNone, "the program uses CUPTI itself"},
                     {1, 0, 100, GpuTimeSource::kNone, "no driver"}};  // its capability reports this
  EXPECT_EQ(RunRemarks(run),
            (std::vector<std::string>{
                "lost: 9 activities of GPUs: CUPTI found no buffer for them (DLHOOK_GPU_BUFFERS_MIB)",
                "lost: 9 records of GPU work: no room for GPU work, or for the call that launched it (ring full)",
                "gap: no times of GPUs for 3.00 ms of 1.dlh: the program uses CUPTI itself"}));
}

TEST(Render, JsonIsValidWhateverTheTextHolds) {
  Table table = SmallTable();
  table.rows[0][0] = std::string("\xff\"\\\n\0x", 7);
  table.rows[0][3] = std::numeric_limits<double>::quiet_NaN();
  const auto json = nlohmann::json::parse(Render(TraceModel(), {table}, RenderJson), nullptr, false);
  ASSERT_FALSE(json.is_discarded());
  EXPECT_TRUE(json["tables"][0]["rows"][0][3].is_null());
  EXPECT_EQ(nlohmann::json::parse(Render(TraceModel(), {}, RenderJson))["tables"].size(), 0u);
}

TEST(Render, NumbersHaveThreeDigitsAndAUnit) {
  EXPECT_EQ(HumanCell(int64_t{0}, "ns"), "0 ns");
  EXPECT_EQ(HumanCell(int64_t{999}, "ns"), "999 ns");
  EXPECT_EQ(HumanCell(int64_t{1'000}, "ns"), "1.00 us");
  EXPECT_EQ(HumanCell(int64_t{99'949}, "ns"), "99.9 us");
  EXPECT_EQ(HumanCell(int64_t{999'700}, "ns"), "1.00 ms");
  EXPECT_EQ(HumanCell(int64_t{12'345'678'901}, "ns"), "12.3 s");
  EXPECT_EQ(HumanCell(int64_t{-1'500}, "ns"), "-1.50 us");
  EXPECT_EQ(HumanCell(int64_t{4096}, "bytes"), "4.00 KiB");
  EXPECT_EQ(HumanCell(int64_t{2'000'000'000}, "flops"), "2.00 GFLOP");
  EXPECT_EQ(HumanCell(12.34, "%"), "12.3%");
  EXPECT_EQ(HumanCell(1234.5, "GFLOP/s"), "1234");
  EXPECT_EQ(HumanCell(int64_t{123456}, ""), "123456");
  EXPECT_EQ(HumanCell(std::monostate(), "ns"), "-");
}

TEST(TableOps, SortsNumbersDownTextUpAndUnknownLast) {
  Table table = SmallTable();
  table.rows.push_back({std::string("b"), int64_t{5}, int64_t{9'000'000}, 1.0});
  SortBy(2, &table);
  EXPECT_EQ(std::get<CellString>(table.rows[0][0]), "b");
  EXPECT_EQ(std::get<CellString>(table.rows[2][0]), "k3");
  SortBy(0, &table);
  EXPECT_EQ(std::get<CellString>(table.rows[0][0]), "b");
  LimitRows(1, &table);
  EXPECT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.notes.back(), "The first 1 of 3 rows.");
}

TEST(TableOps, FindsTablesThatBreakTheirPromise) {
  EXPECT_TRUE(CheckTable(SmallTable()).ok());
  Table short_row = SmallTable();
  short_row.rows[0].pop_back();
  EXPECT_FALSE(CheckTable(short_row).ok());
  Table wrong_type = SmallTable();
  wrong_type.rows[0][1] = 1.5;
  EXPECT_FALSE(CheckTable(wrong_type).ok());
  Table same_names = SmallTable();
  same_names.columns[1].name = "problem";
  EXPECT_FALSE(CheckTable(same_names).ok());
}

TEST(TableOps, TakesAwayNumbersThatCanNotBe) {
  Table table;
  table.columns = {{"time", "ns", ColumnType::kInteger},    {"percent", "%", ColumnType::kReal},
                   {"value", "", ColumnType::kReal},        {"unit", "", ColumnType::kText},
                   {"overlapping", "%", ColumnType::kReal}, {"measured", "%", ColumnType::kReal},
                   {"change", "%", ColumnType::kReal}};
  table.columns[4].range = Range::kNotNegative;
  table.columns[5].range = Range::kMeasured;
  table.columns[6].range = Range::kSigned;
  const double infinity = std::numeric_limits<double>::infinity();
  table.rows = {{int64_t{0}, 100.0, 100.0, "%", 300.0, 100.0, -300.0},
                {int64_t{-5}, 100.06, 100.06, "%", -1.0, 100.06, infinity},
                {std::monostate(), 100 + 1e-12, 1e6, "calls", infinity, -1.0, std::nan("")}};
  const std::vector<Row> expected = {{int64_t{0}, 100.0, 100.0, "%", 300.0, 100.0, -300.0},
                                     {Cell(), Cell(), Cell(), "%", Cell(), Cell(), Cell()},
                                     {Cell(), 100.0, 1e6, "calls", Cell(), Cell(), Cell()}};
  EXPECT_EQ(TakeAwayNonsense(&table), 7u);  // not the two that were measured
  EXPECT_EQ(table.rows, expected);
  ASSERT_EQ(table.notes.size(), 6u);
  EXPECT_EQ(
      table.notes[0],
      "Odd: time of 1 row can't be (-5 ns) and is left out: the trace is damaged, or a clock or counter went wrong.");
  EXPECT_EQ(TakeAwayNonsense(&table), 0u);
}

TEST(Renderers, HaveDifferentNames) {
  ASSERT_EQ(Renderers().size(), 4u);
  EXPECT_EQ(Renderers()[0].name, "text");
}

// Ten counters that a machine lacks give one sentence.
TEST(RunFactsTest, CountersThatLackForOneReasonAreOneSentence) {
  TraceModel run = SmallRun();
  for (const char* name : {"counter:cycles", "counter:instructions", "counter:slots", "counters"}) {
    Capability& capability = run.processes[0].capabilities.emplace_back();
    capability.name = name;
    capability.state = CapabilityState::kRefused;
    capability.reason = name == std::string("counter:slots") ? "not on this processor" : "no PMU";
  }
  const std::vector<std::string> remarks = RunRemarks(run);
  for (const char* sentence :
       {"refused: counter:cycles, instructions: no PMU", "refused: counter:slots: not on this processor",
        "refused: counters: no PMU", "refused: onednn-tap of x.so: unknown build"}) {
    EXPECT_EQ(std::count(remarks.begin(), remarks.end(), sentence), 1) << sentence;
  }
}

// What a machine can count belongs to no run.
TEST(RenderTest, TablesOfNoRun) {
  const Report report = {.run = nullptr, .tables = {SmallTable()}};
  const TraceModel empty;
  EXPECT_EQ(RenderText(report), RenderText({.run = &empty, .tables = {SmallTable()}}));
  EXPECT_FALSE(nlohmann::json::parse(RenderJson(report)).contains("run"));
  EXPECT_EQ(RenderCsv(report).substr(0, 7), "problem");
}

}  // namespace
}  // namespace dlhook::analyzer
