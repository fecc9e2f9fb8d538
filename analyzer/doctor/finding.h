// One result of the doctor.
#pragma once

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline doctor {

enum class Level {
  kOk,
  kNote,     // worth knowing; nothing that this version shows is missing
  kWarning,  // some data will be missing
  kProblem,  // nothing can be seen
};
const char* LevelName(Level level);  // "ok", "note", "warning", "problem"

struct Finding {
  std::string id;  // stable: "deepbind", "clock" …
  Level level = Level::kOk;
  std::string subject;      // a library, a program; may be empty
  std::string text;         // the fact and its consequence
  std::string advice = {};  // what to do; empty: nothing
};

// The file's name, with its package if installed for Python: "blis/cy.cpython-311-x86_64-linux-gnu.so".
std::string ShortPath(const std::string& path);

// Warnings and problems.
int CountBad(const std::vector<Finding>& findings);

}  // namespace dlhook::analyzer::doctor
