// The answer for a run above 32 MB, of which `dlhook report` reads parts: it agrees with the tables, which read all.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/analyzer/builders/one_processor.h"
#include "tests/analyzer/test_trace.h"
#include "tests/analyzer/training_trace.h"

namespace dlhook::analyzer {
namespace {

constexpr char kOtherOps[] = "other ops";  // the screen adds whose they are, and names some
constexpr int64_t kSteps = 400'000;        // 63 MB
constexpr double kTolerance = 0.02;        // of times: those of the parts are a sample

struct Ended {
  std::string out;
  double peak_kb = 0;
};

Ended Report(const std::string& path, const std::vector<const char*>& flags) {
  int ends[2];
  if (pipe(ends) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    std::vector<const char*> words = {DLHOOK_BINARY, "report", path.c_str()};
    words.insert(words.end(), flags.begin(), flags.end());
    words.push_back(nullptr);
    execv(DLHOOK_BINARY, const_cast<char**>(words.data()));
    _exit(127);
  }
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t count; (count = read(ends[0], buffer, sizeof(buffer))) > 0;) {
    ended.out.append(buffer, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  rusage usage = {};
  EXPECT_EQ(wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  ended.peak_kb = static_cast<double>(usage.ru_maxrss);
  return ended;
}

double Nanoseconds(const std::string& number, const std::string& unit) {
  static const std::map<std::string, double> kUnits = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  return std::stod(number) * kUnits.at(unit);
}

std::string OnOneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// What the screen says: "NAME … 419 us" or "NAME … 798 us 88 % ###" by name, and the step under "".
std::map<std::string, double> TimesOn(const std::string& screen) {
  std::map<std::string, double> times;
  std::smatch found;
  const std::string text = OnOneLine(screen);
  EXPECT_TRUE(std::regex_search(text, found, std::regex("takes ([0-9.]+) (ns|us|ms|s), mean of"))) << screen;
  if (!found.empty()) times[""] = Nanoseconds(found[1], found[2]);
  const std::regex row("  (\\S.*?)  +.*?([0-9.]+) (ns|us|ms|s)(?: +[0-9]+ %(?:  #*)?)?");
  std::istringstream lines(screen);
  for (std::string line; std::getline(lines, line);) {
    if (!std::regex_match(line, found, row)) continue;
    const std::string name = found[1];
    times[name.rfind("other ", 0) == 0 ? kOtherOps : name] = Nanoseconds(found[2], found[3]);
  }
  return times;
}

// The same from the table `work`, which adds up to the mean step.
std::map<std::string, double> TimesIn(const nlohmann::json& table) {
  std::map<std::string, size_t> at;
  for (size_t i = 0; i < table["columns"].size(); ++i) at[table["columns"][i]["name"]] = i;
  const auto text = [&](const nlohmann::json& row, const char* column) {
    return row[at.at(column)].is_null() ? std::string() : row[at.at(column)].get<std::string>();
  };
  std::map<std::string, double> times;
  for (const nlohmann::json& row : table["rows"]) {
    const double ns = row[at.at("time")];
    times[""] += ns;
    times[text(row, "layer")] += ns;
    const std::string activity = text(row, "activity");
    times[activity == "library"    ? text(row, "what")
          : activity == "not seen" ? "Python or native code"
                                   : kOtherOps] += ns;
  }
  return times;
}

TEST(LongRunTest, TheAnswerFromPartsIsThatOfTheTables) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/1.dlh";
  {
    std::ofstream file(path, std::ios::binary);
    WriteTrainingTrace(kSteps, [&](const std::string& packet) { file << packet; });
  }
  const Ended screen = Report(path, {});
  const Ended all = Report(path, {"--table", "work", "--format", "json"});

  std::smatch parts;
  const std::string text = OnOneLine(screen.out);
  const std::regex sentence("From ([0-9]+) evenly spread parts, ([0-9]+) % of the run");
  ASSERT_TRUE(std::regex_search(text, parts, sentence)) << screen.out;
  EXPECT_GT(std::stoi(parts[1]), 8);
  EXPECT_NEAR(std::stoi(parts[2]), 16.0 * (1 << 20) / 63e6 * 100, 5);

  const std::map<std::string, double> told = TimesOn(screen.out);
  const std::map<std::string, double> known = TimesIn(nlohmann::json::parse(all.out)["tables"][0]);
  for (const char* name : {"", "gemm", "Python or native code", kOtherOps, "train.py:10 linear",
                           "train.py:10 linear #2", "optimizer (SGD)"}) {
    ASSERT_TRUE(told.contains(name)) << name << "\n" << screen.out;
    ASSERT_TRUE(known.contains(name)) << name;
    EXPECT_NEAR(told.at(name) / known.at(name), 1, kTolerance) << name;
  }
  EXPECT_LT(screen.peak_kb, all.peak_kb / 2) << screen.peak_kb << " of " << all.peak_kb << " KiB";

  const std::string tables = Report(path, {"--table", "all"}).out;
  const OneProcessor one;
  EXPECT_EQ(Report(path, {"--table", "all"}).out, tables);
}

}  // namespace
}  // namespace dlhook::analyzer
