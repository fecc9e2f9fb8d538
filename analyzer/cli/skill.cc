// docs/skill.md, for assistants.
#include "analyzer/cli/commands.h"
#include "analyzer/cli/output.h"

extern "C" {
extern const char dlhook_skill[], dlhook_skill_end[];  // skill.md: see glossary.S
}

namespace dlhook::analyzer::inline cli {

Command SkillCommand() {
  return {.name = "skill",
          .summary = "print one page of instructions for an assistant",
          .examples = {{"dlhook skill >SKILL.md", "where an assistant looks for skills"}},
          .run = [](const Args&) {
            return PrintOutput(absl::string_view(dlhook_skill, static_cast<size_t>(dlhook_skill_end - dlhook_skill)));
          }};
}

}  // namespace dlhook::analyzer::cli
