// What can't be seen of a program, why, and what to do about it.
#ifndef DLHOOK_ANALYZER_DOCTOR_PROGRAM_FINDINGS_H_
#define DLHOOK_ANALYZER_DOCTOR_PROGRAM_FINDINGS_H_

#include <string>
#include <vector>

#include "analyzer/doctor/program_report.h"

namespace dlhook::analyzer::inline doctor {

enum class Binding { kThroughShim, kPastShim, kUnbound };

// Where a call through the slot goes. Of a process that has the shim.
Binding BindingOf(const BoundSlot& slot, const LoadedObject& object, const ProcessLook& look);

// Another object than the shim exports `name`.
bool IsDefinedBeside(const std::string& name, const ProcessLook& look, const LoadedObject& shim);

// To add one: a function that appends to the findings, called here; its id goes into README.md.
std::vector<Finding> FindTroubles(const Trial& trial, const ProgramReport& report);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_PROGRAM_FINDINGS_H_
