// `dlhook calibrate`: this machine's peak rates of computation and transfers, measured once and stored for reports.

#include "analyzer/calibrate/this_machine.h"
#include "analyzer/cli/launch.h"
#include "analyzer/cli/run_file.h"
#include "analyzer/cli/tables.h"
#include "analyzer/peaks/calibration.h"

namespace dlhook::analyzer::inline cli {
namespace {

// The file for this machine's calibration; empty: there is no cache folder.
std::string FileOf(const Args& args, const Calibration& machine) {
  if (const auto asked = args.Last("output")) return *asked;
  const std::string folder = CacheFolder();
  return folder.empty() ? "" : absl::StrCat(folder, "/", CalibrationName(machine));
}

constexpr char kNoFolder[] = "there is no cache folder (DLHOOK_CACHE=off, or no HOME)";

// The results are shown even if they can't be stored.
int Keep(const Calibration& calibration, const std::string& path) {
  const absl::Status status =
      path.empty() ? absl::FailedPreconditionError(kNoFolder) : WriteCalibration(calibration, path);
  if (status.ok()) return kExitOk;
  PrintError(absl::StrCat("calibrate: what was measured is not kept: ", status.message(),
                          "; --output FILE stores it elsewhere"));
  return kExitThreshold;
}

absl::StatusOr<int> RunCalibrate(const Args& args) {
  ASSIGN_OR_RETURN(const OutputFlags output, ReadOutputFlags(args));
  const Calibration machine = DescribeMachine();
  const std::string path = FileOf(args, machine);
  Calibration calibration;
  int code = kExitOk;
  if (args.Has("show")) {
    if (path.empty()) return absl::FailedPreconditionError(kNoFolder);
    absl::StatusOr<Calibration> kept = ReadCalibration(path);
    if (!kept.ok()) return absl::NotFoundError(absl::StrCat(kept.status().message(), "; dlhook calibrate measures"));
    if (!Fits(*kept, machine.processor, machine.processors)) {
      PrintError(absl::StrCat("calibrate: ", path, " is of another machine"));
      code = kExitThreshold;
    }
    calibration = *std::move(kept);
  } else {
    absl::StatusOr<std::string> python = args.Has("python") ? FindProgram(*args.Last("python")) : std::string();
    if (!python.ok()) return absl::NotFoundError(absl::StrCat("--python: ", python.status().message()));
    calibration = Calibrate({.libraries = args.All("library"), .python = *python});
    code = Keep(calibration, path);
  }
  Table table = CalibrationTable(calibration);
  table.notes.push_back(
      absl::StrCat("Measured at ", calibration.date, code == kExitOk ? absl::StrCat("; kept in ", path) : "", "."));
  return std::max(PrintTables(output, {table}), code);
}

}  // namespace

Command CalibrateCommand() {
  return {
      .name = "calibrate",
      .summary = "measure this machine's peak rates, for bounds in reports",
      .flags = {{"show", "", "print what was measured before, measure nothing"},
                {"library", "PATH", "use only this library for products; may be repeated"},
                {"python", "PYTHON", "look for libraries in its packages (default: python3 in the PATH)"},
                {"output", "FILE", "store the result in FILE instead of the cache folder", 'o'},
                {"format", "FORMAT", "text, csv or json (default: text)"},
                ColorFlag()},
      .examples = {{"dlhook calibrate", "measures for some 10 s; reports then say how far from the peak a layer is"},
                   {"dlhook calibrate --python venv/bin/python", "with the libraries of that environment"},
                   {"dlhook calibrate --show", "what was measured, how, and when"}},
      .details =
          "GFLOP/s of products of f32, f64, bf16 and int8 by the fastest library found\n"
          "(OpenBLAS, MKL, BLIS, oneDNN; inside PyTorch and NumPy), bandwidth of L2, L3 and\n"
          "memory, each with one thread and with all; launches and copies of a GPU. What\n"
          "can't be measured is listed with the reason. The result is stored in the cache\n"
          "folder ($DLHOOK_CACHE, $XDG_CACHE_HOME/dlhook, ~/.cache/dlhook), a file for each\n"
          "processor model, microcode and number of available processors.\n\n"
          "Exit codes: 0: measured and stored; 1: measured but not stored, or the file is for\n"
          "another machine; 2: nothing to show, or bad usage.\n",
      .run = RunCalibrate};
}

}  // namespace dlhook::analyzer::cli
