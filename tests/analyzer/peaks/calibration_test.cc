// Calibrations: spreads, files that are read back unchanged, damaged files, and the choice of a machine's file.
#include "analyzer/peaks/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace dlhook::analyzer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const ProcessorInfo kProcessor = {"AuthenticAMD", "AMD EPYC 7763 64-Core Processor", 25, 1, 1, 2, 1};

Calibration Example(uint32_t processors = 2, std::string date = "2026-11-23T05:40:00Z") {
  Calibration calibration;
  calibration.processor = kProcessor;
  calibration.microcode = "0xa0011d5";
  calibration.processors = processors;
  calibration.l2_bytes = 512 << 10;
  calibration.l3_bytes = 32 << 20;
  calibration.gpu = "NVIDIA H100";
  calibration.date = std::move(date);
  calibration.tool_version = "0.1.0";
  calibration.waiting_percent = 0.25;
  calibration.measured = {
      {{98.5, 97.25, 96, 98, 17}, "f32", 1, "GFLOP/s", "sgemm_ of \"libopenblas.so.0\", 1024x1024x1024"},
      {{30, 29, 28, 29.5, 9}, "memory read", 2, "GB/s", "65536 KiB in each thread"}};
  calibration.not_measured = {{"bf16", "no library was found"}};
  return calibration;
}

class Folder : public testing::Test {
 protected:
  Folder()
      : path_(std::filesystem::path(testing::TempDir()) /
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(path_);
  }
  ~Folder() override { std::filesystem::remove_all(path_); }
  std::string Path(const std::string& name) const { return (path_ / name).string(); }
  void Write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(path_);
    std::ofstream(Path(name)) << text;
  }
  std::filesystem::path path_;
};

TEST(Spread, IsOfMedianAndQuartiles) {
  const Spread rates = SpreadOf({4, 1, 3, 2, 5}, true);
  EXPECT_THAT((std::vector{rates.low_quartile, rates.median, rates.high_quartile, rates.best}),
              ElementsAre(2, 3, 4, 5));
  const Spread times = SpreadOf({4, 1, 3, 2}, false);
  EXPECT_THAT((std::vector{times.low_quartile, times.median, times.high_quartile, times.best}),
              ElementsAre(1.75, 2.5, 3.25, 1));
  EXPECT_EQ(times.repeats, 4);
  EXPECT_EQ(SpreadOf({7}, true).median, 7);
}

TEST_F(Folder, KeepsWhatWasWritten) {
  const Calibration written = Example();
  const std::string path = Path("deep/er/" + CalibrationName(written));
  ASSERT_TRUE(WriteCalibration(written, path).ok());
  const absl::StatusOr<Calibration> read = ReadCalibration(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(CalibrationJson(*read), CalibrationJson(written));
  EXPECT_EQ(read->Find("f32", 1)->method, written.measured[0].method);
  EXPECT_EQ(read->Find("f32", 2), nullptr);
  EXPECT_EQ(read->processor, kProcessor);
}

TEST(CalibrationFile, IsNamedByWhatDecides) {
  EXPECT_EQ(CalibrationName(Example()),
            "calibration-AMD_EPYC_7763_64_Core_Processor-25-1-1-microcode-0xa0011d5-2.json");
  Calibration hostile = Example();
  hostile.processor.name = "../../etc";
  hostile.microcode = "";
  EXPECT_EQ(CalibrationName(hostile), "calibration-.._.._etc-25-1-1-microcode-unknown-2.json");
}

TEST(CalibrationFile, SaysWhatIsDamaged) {
  const auto complaint = [](const std::string& text) { return std::string(ParseCalibration(text).status().message()); };
  const auto changed = [](std::string from, const std::string& to) {
    std::string text = CalibrationJson(Example());
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_EQ(complaint(""), "is no calibration of dlhook's");
  EXPECT_EQ(complaint("[1]"), "is no calibration of dlhook's");
  EXPECT_EQ(complaint(changed("\"format\": 1", "\"format\": 2")), "is of another version of dlhook");
  EXPECT_EQ(complaint(changed("\"processors\": 2", "\"processors\": 0")), "is damaged: it names no processors");
  EXPECT_EQ(complaint(changed("98.5", "-1")), "is damaged: its \"f32\" can't be");
  EXPECT_EQ(complaint(changed("98.5", "1e999")), "is no calibration of dlhook's");
  EXPECT_THAT(complaint(changed("98.5", "\"fast\"")), HasSubstr("is damaged: "));
  EXPECT_THAT(complaint(changed("\"microcode\"", "\"macrocode\"")), HasSubstr("microcode"));
  const std::string whole = CalibrationJson(Example());
  for (size_t size = 0; size + 1 < whole.size(); ++size) EXPECT_FALSE(ParseCalibration(whole.substr(0, size)).ok());
}

TEST_F(Folder, ThatCannotBeWrittenIsNamed) {
  Write("file", "");
  const absl::Status status = WriteCalibration(Example(), Path("file/calibration.json"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(Path("file/calibration.json") + " can't be written: "));
  EXPECT_THAT(std::string(ReadCalibration(Path("none")).status().message()), HasSubstr("there is no such file"));
}

TEST_F(Folder, HoldsThoseOfSeveralMachines) {
  Calibration other = Example();
  other.processor.model = 2;
  for (const Calibration& calibration : {Example(2), Example(4, "2026-01-01"), Example(8, "2026-02-02"), other}) {
    ASSERT_TRUE(WriteCalibration(calibration, Path(CalibrationName(calibration))).ok());
  }
  Write("calibration-broken.json", "{}");
  Write("another.json", "{}");
  const auto found = [&](const ProcessorInfo& processor, uint32_t processors) {
    const FoundCalibration answer = FindCalibration(path_.string(), processor, processors);
    EXPECT_THAT(answer.complaints, ElementsAre(HasSubstr("calibration-broken.json: is no calibration")));
    return answer.calibration ? answer.calibration->processors : 0;
  };
  EXPECT_EQ(found(kProcessor, 2), 2u);
  EXPECT_EQ(found(kProcessor, 4), 4u);
  EXPECT_EQ(found(kProcessor, 3), 8u);  // a part of a machine; the newest
  EXPECT_EQ(found(kProcessor, 9), 0u);
  EXPECT_EQ(found(kProcessor, 0), 0u);  // not known
  EXPECT_EQ(found({}, 2), 0u);
  EXPECT_THAT(FindCalibration(Path("none"), kProcessor, 2).complaints, IsEmpty());
}

}  // namespace
}  // namespace dlhook::analyzer
