// What can't be seen of a program, why, and what to do about it.
#ifndef DLHOOK_ANALYZER_DOCTOR_PROGRAM_FINDINGS_H_
#define DLHOOK_ANALYZER_DOCTOR_PROGRAM_FINDINGS_H_

#include <string>
#include <vector>

#include "analyzer/doctor/program_report.h"

namespace dlhook::analyzer::inline doctor {

enum class Binding { kThroughShim, kPastShim, kUnbound };

// Where a call through the slot goes. For processes with the shim.
Binding BindingOf(const BoundSlot& slot, const LoadedObject& object, const ProcessLook& look);

// Whether an object other than the shim exports `name`.
bool IsDefinedBeside(const std::string& name, const ProcessLook& look, const LoadedObject& shim);

// To add one: write a function that appends to the findings, call it here, and add its id to README.md.
std::vector<Finding> FindTroubles(const Trial& trial, const ProgramReport& report);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_PROGRAM_FINDINGS_H_
