// One thing that the doctor has to say.
#ifndef DLHOOK_ANALYZER_DOCTOR_FINDING_H_
#define DLHOOK_ANALYZER_DOCTOR_FINDING_H_

#include <string>
#include <vector>

namespace dlhook::analyzer::inline doctor {

enum class Level {
  kOk,
  kNote,     // worth knowing; nothing of what this version shows is missing
  kWarning,  // something can't be seen
  kProblem,  // nothing can be seen
};
const char* LevelName(Level level);  // "ok", "note", "warning", "problem"

struct Finding {
  std::string id;  // stable: "deepbind", "clock" …
  Level level = Level::kOk;
  std::string subject;  // what it is about: a library, a program; may be empty
  std::string text;     // what is so, and what that means
  std::string advice;   // what to do; empty: nothing
};

// The file's name, of what is installed for Python with its package: "blis/cy.cpython-311-x86_64-linux-gnu.so".
std::string ShortPath(const std::string& path);

// Warnings and problems.
int CountBad(const std::vector<Finding>& findings);

}  // namespace dlhook::analyzer::doctor

#endif  // DLHOOK_ANALYZER_DOCTOR_FINDING_H_
