// The doctor's conclusions from hand-written looks and runs. Those from real ones: tests/preload_e2e/test_doctor.py.
#include "analyzer/doctor/program_report.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

#include "analyzer/doctor/machine.h"
#include "tests/analyzer/test_trace.h"

namespace dlhook::analyzer {
namespace {

constexpr uint64_t kShim = 0x10000;
constexpr uint64_t kBlas = 0x20000;
constexpr uint64_t kUser = 0x30000;
constexpr uint64_t kPage = 0x1000;

LoadedObject Object(const std::string& path, uint64_t base, const std::vector<std::string>& exports = {}) {
  LoadedObject object;
  object.path = path;
  object.image.segments = {{base, base + kPage}};
  for (const std::string& name : exports) object.image.exports.push_back({name, false});
  return object;
}

// A shim, a BLAS and a user of it whose reference holds `value`.
ProcessLook Look(uint64_t value, bool is_weak = false) {
  ProcessLook look;
  look.pid = 4711;
  look.program = "/bin/prog";
  look.objects = {Object("/l/libdlhook.so", kShim, {"sgemm_"}), Object("/l/libblas.so", kBlas, {"sgemm_"}),
                  Object("/l/user.so", kUser)};
  look.objects[2].image.slots = {{.name = "sgemm_", .value = value, .definition = 0, .is_weak = is_weak}};
  look.shim = 0;
  return look;
}

Trial TrialOf(const ProcessLook& look, const TraceModel* model = nullptr, int wait_status = 0) {
  Trial trial;
  trial.words = {"prog"};
  trial.wait_status = wait_status;
  trial.looks = {look};
  trial.model = model;
  return trial;
}

// Without the finding that all runs here without scopes have.
ProgramReport Report(const ProcessLook& look, const TraceModel* model = nullptr, int wait_status = 0) {
  ProgramReport report = DescribeTrial(TrialOf(look, model, wait_status));
  std::erase_if(report.findings, [](const Finding& finding) { return finding.id == "no-layer-names"; });
  return report;
}

std::map<std::string, Level> Levels(const ProgramReport& report) {
  std::map<std::string, Level> levels;
  for (const Finding& finding : report.findings) levels[finding.id] = finding.level;
  return levels;
}

std::map<std::string, std::string> States(const ProgramReport& report) {
  std::map<std::string, std::string> states;
  for (const LibraryReport& library : report.libraries) states[library.path] = library.State();
  return states;
}

// 3 calls of sgemm_ in the object at kBlas.
TraceModel Recorded(const std::string& more = "") {
  return LoadText(
      HeaderText("pid: 4711") +
      "packet { mapping { start: 0x20000 end: 0x21000 path: \"/l/libblas.so\" role: LIBRARY detail: \"sgemm_\" } }\n"
      "packet { interned { op { iid: 1 function: \"sgemm_\" family: \"blas\" time_source: CLOCK_TICKS } } }\n"
      "packet { call_batch { thread_id: 1 op_iid: [1, 1, 1] sequence_delta: [0, 0, 0] end_delta_ticks: [10, 10, 10] "
      "duration: [5, 5, 5] parent_distance: [0, 0, 0] } }\n" +
      more);
}

TEST(ProgramReportTest, Bindings) {
  const std::string user = "/l/user.so";
  EXPECT_EQ(States(Report(Look(kShim + 8)))[user], "caller");
  EXPECT_EQ(States(Report(Look(kBlas + 8)))[user], "not seen");
  EXPECT_EQ(States(Report(Look(kUser + 8)))[user], "caller");  // not looked up yet
  EXPECT_EQ(States(Report(Look(0x999000)))[user], "caller");   // points nowhere
  EXPECT_EQ(Levels(Report(Look(kBlas + 8))).count("deepbind"), 1u);
  EXPECT_EQ(Levels(Report(Look(kShim + 8))).count("deepbind"), 0u);
}

TEST(ProgramReportTest, Hooked) {
  const TraceModel model = Recorded();
  const ProgramReport report = Report(Look(kShim + 8), &model);
  EXPECT_EQ(States(report),
            (std::map<std::string, std::string>{{"/l/libblas.so", "hooked"}, {"/l/user.so", "caller"}}));
  EXPECT_EQ(report.recorded, (std::map<std::string, int64_t>{{"blas", 3}}));
  EXPECT_EQ(report.libraries.front().recorded, 3);
  EXPECT_TRUE(report.findings.empty());
}

TEST(ProgramReportTest, CallsThatTwoLibrariesShareAreNotGuessed) {
  const TraceModel model = Recorded(
      "packet { mapping { start: 0x40000 end: 0x41000 path: \"/l/other.so\" role: LIBRARY detail: \"sgemm_\" } }\n");
  ProcessLook look = Look(kShim + 8);
  look.objects.push_back(Object("/l/other.so", 0x40000, {"sgemm_"}));
  for (const LibraryReport& library : Report(look, &model).libraries)
    EXPECT_FALSE(library.recorded.has_value()) << library.path;
}

TEST(ProgramReportTest, WeakReferences) {
  EXPECT_EQ(Levels(Report(Look(kShim + 8, true))).count("weak-reference"), 0u);
  ProcessLook look = Look(kShim + 8, true);
  look.objects[1].image.exports.clear();
  EXPECT_EQ(Levels(Report(look))["weak-reference"], Level::kWarning);
}

TEST(ProgramReportTest, WhatTheTraceSaysOfTapsAndLosses) {
  const TraceModel model = Recorded(
      "packet { capability { name: \"onednn-tap\" state: REFUSED object: \"user.so\" reason: \"unknown oneDNN build\" "
      "} }\n"
      "packet { capability { name: \"python-frames\" state: OFF reason: \"not asked for\" } }\n"
      "packet { capability { name: \"trace-me-tap\" state: LOST object: \"user.so\" reason: \"taken\" } }\n"
      "packet { loss { reason: RING_FULL calls: 7 } }\n");
  const ProgramReport report = Report(Look(kShim + 8), &model);
  EXPECT_EQ(Levels(report), (std::map<std::string, Level>{{"onednn-tap-refused", Level::kWarning},
                                                          {"python-frames-off", Level::kNote},
                                                          {"trace-me-tap-lost", Level::kWarning},
                                                          {"loss-ring_full", Level::kWarning}}));
  for (const Finding& finding : report.findings) EXPECT_FALSE(finding.advice.empty()) << finding.id;
  EXPECT_EQ(report.libraries[1].taps.size(), 2u);
}

TEST(ProgramReportTest, WhereNobodyTellsOfLayers) {
  const auto has_names = [](const TraceModel& model) {
    return Levels(DescribeTrial(TrialOf(Look(kShim + 8), &model))).count("no-layer-names") == 0;
  };
  TraceModel model = Recorded();
  EXPECT_FALSE(has_names(model));
  model.scopes.Resize(1, 0);
  EXPECT_TRUE(has_names(model));
}

// Samples of CPU time at these addresses.
Trial Sampled(const std::map<uint64_t, int64_t>& samples, const TraceModel* model) {
  ProcessLook look = Look(kShim + 8);
  look.objects.push_back(Object("/v/lib/python3.11/site-packages/onnxruntime/libonnxruntime.so.1", 0x50000));
  look.objects.push_back(Object("/usr/bin/python3.11", 0x60000));
  look.objects.push_back(Object("/l/libc.so.6", 0x70000));
  Trial trial = TrialOf(look, model);
  trial.samples[look.pid] = samples;
  trial.samples[12] = {{0x50000, 1000}};  // of a process that was not examined
  return trial;
}

TEST(ProgramReportTest, WhoComputes) {
  const TraceModel model = Recorded();
  const ProgramReport report = DescribeTrial(
      Sampled({{kBlas + 1, 30}, {kBlas + 2, 20}, {0x50010, 25}, {0x60000, 15}, {0x70000, 8}, {0x999000, 2}}, &model));
  EXPECT_EQ(SeenPercent(report.cpu_time), 50);
  EXPECT_EQ(report.cpu_time.front().path, "/l/libblas.so");
  std::map<std::string, Finding> findings;
  for (const Finding& finding : report.findings) findings[finding.id] = finding;
  EXPECT_EQ(findings["computes-unseen"].level, Level::kWarning);
  EXPECT_EQ(findings["computes-unseen"].subject, "/v/lib/python3.11/site-packages/onnxruntime/libonnxruntime.so.1");
  EXPECT_EQ(
      findings["cpu-time"].text,
      "50 % of its CPU time in libraries that dlhook observes (libblas.so 50 %); 27 % in others "
      "(onnxruntime/libonnxruntime.so.1 25 %, "
      "code generated at run time 2 %); 15 % in Python's interpreter; 8 % in the C library and in runtimes (libc.so.6 "
      "8 %); 100 samples, "
      "start and imports included.");
}

// libblas.so leaves its work to libopenblas.so.0, which a library without hooks may need, too.
TEST(ProgramReportTest, WhoComputesForARecordedLibrary) {
  const auto report = [](bool for_others, int64_t recorded_ns) {
    static TraceModel model;
    model = Recorded();
    for (int64_t& duration_ns : model.calls.duration_ns) duration_ns = recorded_ns / 3;
    Trial trial = Sampled({{0x40010, 100}}, &model);
    std::vector<LoadedObject>& objects = trial.looks.front().objects;
    objects.push_back(Object("/l/libopenblasp-r0.3.21.so", 0x40000));
    objects.back().image.soname = "libopenblas.so.0";
    objects[1].image.needed = {"libopenblas.so.0"};
    objects.push_back(Object("/l/liblapack.so.3", 0x80000));
    if (for_others) objects.back().image.needed = {"libopenblas.so.0"};
    return DescribeTrial(trial);
  };
  const auto levels = [&](bool for_others, int64_t recorded_ns) { return Levels(report(for_others, recorded_ns)); };
  EXPECT_EQ(SeenPercent(report(false, 30).cpu_time), 100);
  EXPECT_EQ(levels(false, 30).count("computes-unseen"), 0u);
  constexpr int64_t kCpuNs = 100 * kSampleNs;
  EXPECT_EQ(SeenPercent(report(true, kCpuNs).cpu_time), 100);
  EXPECT_EQ(levels(true, kCpuNs).count("computes-for-others"), 0u) << "recorded calls are all of it";
  EXPECT_EQ(levels(true, 30)["computes-unseen"], Level::kWarning) << "they are nothing of it";
  const unsigned processors = std::thread::hardware_concurrency();
  if (processors > 1) {
    EXPECT_EQ(levels(true, kCpuNs / 2)["computes-for-others"], Level::kNote);
  }
}

TEST(ProgramReportTest, WhoComputesIsNotGuessed) {
  const TraceModel model = Recorded();
  const ProgramReport few = DescribeTrial(Sampled({{0x50010, 25}}, &model));
  EXPECT_EQ(SeenPercent(few.cpu_time), std::nullopt);
  EXPECT_EQ(Levels(few).count("computes-unseen"), 0u);
  const auto verdict = [](const ProgramReport& report) { return DoctorReport{{}, report}.Verdict(); };
  EXPECT_NE(verdict(few).find("is not known"), std::string::npos);
  EXPECT_NE(
      verdict(DescribeTrial(Sampled({{kBlas, 80}, {0x60000, 20}}, &model))).find("80 % of this program's CPU time"),
      std::string::npos);
}

TEST(ProgramReportTest, WhereTimesOfGpusComeFrom) {
  const TraceModel model = Recorded(
      "packet { capability { name: \"gpu-time\" state: ON object: \"libcupti.so.13\" reason: \"CUPTI 13.0\" } }\n");
  EXPECT_EQ(Levels(Report(Look(kShim + 8), &model)), (std::map<std::string, Level>{{"gpu-time", Level::kOk}}));
  const TraceModel refused = Recorded(
      "packet { capability { name: \"gpu-time\" state: REFUSED reason: \"nsys has "
      "CUPTI\" } }\n");
  const ProgramReport report = Report(Look(kShim + 8), &refused);
  EXPECT_EQ(Levels(report), (std::map<std::string, Level>{{"gpu-time-refused", Level::kWarning}}));
  EXPECT_FALSE(report.findings.front().advice.empty());
}

TEST(GpuFindingsTest, SayWhatTimesToExpect) {
  const auto levels = [](const GpuMachine& machine) {
    std::map<std::string, Level> levels;
    for (const Finding& finding : GpuFindings(machine)) levels[finding.id] = finding.level;
    return levels;
  };
  GpuMachine machine;
  EXPECT_EQ(levels(machine), (std::map<std::string, Level>{{"gpu", Level::kOk}}));
  machine.has_driver = true;
  machine.driver_status = 100;  // no device
  machine.cupti = "/l/libcupti.so.13";
  EXPECT_EQ(levels(machine), (std::map<std::string, Level>{{"gpu", Level::kNote}}));
  machine.driver_status = 0;
  machine.devices = {"NVIDIA H200"};
  EXPECT_EQ(levels(machine), (std::map<std::string, Level>{{"gpu", Level::kOk}, {"gpu-times", Level::kWarning}}));
  machine.cupti_version = 130001;
  EXPECT_EQ(levels(machine), (std::map<std::string, Level>{{"gpu", Level::kOk}, {"gpu-times", Level::kOk}}));
  EXPECT_NE(GpuFindings(machine)[1].text.find("CUDA 13.0"), std::string::npos);
  machine.devices = {"NVIDIA A100 MIG 1g.5gb"};
  EXPECT_EQ(levels(machine), (std::map<std::string, Level>{
                                 {"gpu", Level::kOk}, {"gpu-times", Level::kOk}, {"gpu-shared", Level::kNote}}));
  machine.cupti.clear();
  EXPECT_EQ(levels(machine)["gpu-times"], Level::kNote);
}

TEST(GpuFindingsTest, VersionsOfCupti) {
  for (const auto& [version, name] :
       std::map<uint32_t, std::string>{{13, "11.0"}, {18, "11.8"}, {26, "12.8"}, {28, "12.9"}, {130100, "13.1"}}) {
    EXPECT_EQ(CudaOfCupti(version), name) << version;
  }
  EXPECT_EQ(CudaOfCupti(0), "an unknown version");
  EXPECT_EQ(CudaOfCupti(99), "an unknown version");
}

TEST(ProgramReportTest, ProcessesWithoutTheShim) {
  const TraceModel model = Recorded();
  ProcessLook look = Look(kBlas + 8);
  look.objects.erase(look.objects.begin());
  look.shim.reset();
  EXPECT_EQ(Levels(Report(look, &model)), (std::map<std::string, Level>{{"environment-cleared", Level::kWarning}}));
  look.preload = "/l/libdlhook.so";
  EXPECT_EQ(Levels(Report(look, &model)), (std::map<std::string, Level>{{"shim-not-loaded", Level::kWarning}}));
  look.objects.clear();  // nothing to examine in it
  EXPECT_TRUE(Report(look, &model).findings.empty());
}

TEST(ProgramReportTest, Ends) {
  const TraceModel model = Recorded();
  EXPECT_TRUE(Report(Look(kShim + 8), &model, 0).findings.empty());
  EXPECT_EQ(Levels(Report(Look(kShim + 8), &model, 11)).count("program-failed"), 1u);
  EXPECT_EQ(Levels(Report(Look(kShim + 8), &model, 5 << 8)).count("program-failed"), 1u);
  EXPECT_EQ(Levels(Report(Look(kShim + 8)))["no-calls"], Level::kProblem);
}

TEST(DoctorReportTest, Verdicts) {
  DoctorReport report;
  report.machine = {{"clock", Level::kOk, "", "good.", ""}, {"counters", Level::kNote, "", "none.", ""}};
  EXPECT_EQ(report.CountBad(), 0);
  const TraceModel model = Recorded();
  report.program = Report(Look(kBlas + 8), &model);
  EXPECT_EQ(report.CountBad(), 1);
  const std::string text = DoctorText(report, 80, false);
  EXPECT_NE(text.find("1 check needs attention"), std::string::npos);
  EXPECT_NE(text.find("warning  deepbind: user.so calls sgemm_ in libblas.so, bypassing dlhook"), std::string::npos)
      << text;
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(DoctorText(report, 80, true).find('\033'), std::string::npos);
  size_t width = 0;
  for (size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    width = std::max(width, end - at);
  EXPECT_LE(width, 80u);
}

}  // namespace
}  // namespace dlhook::analyzer
