// A process tells of some hundred files: they are passed over one by one.
#include "analyzer/symbols/code_map.h"

#include <algorithm>

namespace dlhook::analyzer {
namespace {

bool IsSame(const trace::Mapping& left, const trace::Mapping& right) {
  return left.start() == right.start() && left.path() == right.path() && left.build_id() == right.build_id();
}

}  // namespace

CodeMap::CodeMap(const ProcessInfo& process) {
  for (const trace::Mapping& mapping : process.mappings) {
    const auto known = std::find_if(mappings_.begin(), mappings_.end(),
                                    [&](const trace::Mapping* one) { return IsSame(*one, mapping); });
    if (known != mappings_.end()) mappings_.erase(known);
    mappings_.push_back(&mapping);
  }
}

const trace::Mapping* CodeMap::Find(uint64_t address, bool* is_doubtful) const {
  const trace::Mapping* found = nullptr;
  for (auto mapping = mappings_.rbegin(); mapping != mappings_.rend(); ++mapping) {
    if (address < (*mapping)->start() || address >= (*mapping)->end()) continue;
    if (found == nullptr) {
      found = *mapping;
    } else if (found->path() != (*mapping)->path() || found->build_id() != (*mapping)->build_id()) {
      *is_doubtful = true;
    }
  }
  return found;
}

}  // namespace dlhook::analyzer
