// The doctor's report as text and as json.
#pragma once

#include "analyzer/doctor/finding.h"
#include "analyzer/doctor/program_report.h"

namespace dlhook::analyzer::inline doctor {

struct DoctorReport {
  std::vector<Finding> machine;
  std::optional<ProgramReport> program;

  // Warnings and problems.
  int CountBad() const;
  // One sentence.
  std::string Verdict() const;
};

std::string DoctorText(const DoctorReport& report, size_t width, bool color);
std::string DoctorJson(const DoctorReport& report);

}  // namespace dlhook::analyzer::doctor
