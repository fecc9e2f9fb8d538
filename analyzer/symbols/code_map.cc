// The address space is cut where a mapping begins or ends; each piece refers to the mapping recorded last.
#include "analyzer/symbols/code_map.h"

#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline symbols {
namespace {

// Of the shim's mappings and the launcher's some have other paths to the same file.
using File = std::pair<absl::string_view, absl::string_view>;  // build-id, or path
File FileOf(const Mapping& mapping) {
  return mapping.build_id.empty() ? File("", mapping.path) : File(mapping.build_id, "");
}

struct Bound {
  uint64_t address = 0;
  bool begins = false;
  size_t order = 0;  // in which mappings were recorded
};

}  // namespace

CodeMap::CodeMap(const ProcessInfo& process) {
  const std::vector<Mapping>& mappings = process.mappings;
  // For mappings recorded twice the last time counts: another one may have been there in between.
  std::map<std::tuple<uint64_t, absl::string_view, absl::string_view>, size_t> last;
  for (size_t i = 0; i < mappings.size(); ++i) last[{mappings[i].start, mappings[i].path, mappings[i].build_id}] = i;
  std::vector<Bound> bounds;
  for (const auto& [key, i] : last) {
    if (mappings[i].start >= mappings[i].end) continue;
    bounds.push_back({mappings[i].start, true, i});
    bounds.push_back({mappings[i].end, false, i});
  }
  absl::c_sort(bounds, [](const Bound& a, const Bound& b) { return a.address < b.address; });
  std::map<size_t, const Mapping*> open;
  std::map<File, int> open_files;
  for (size_t i = 0; i < bounds.size(); ++i) {
    const Mapping& mapping = mappings[bounds[i].order];
    const auto file = open_files.try_emplace(FileOf(mapping), 0).first;
    if (bounds[i].begins) {
      open.emplace(bounds[i].order, &mapping);
      ++file->second;
    } else {
      open.erase(bounds[i].order);
      if (--file->second == 0) open_files.erase(file);
    }
    if (i + 1 < bounds.size() && bounds[i + 1].address == bounds[i].address) continue;
    pieces_.push_back({bounds[i].address, open.empty() ? nullptr : open.rbegin()->second, open_files.size() > 1});
  }
}

const Mapping* CodeMap::Find(uint64_t address, bool* is_doubtful) const {
  const auto after =
      absl::c_upper_bound(pieces_, address, [](uint64_t at, const Piece& piece) { return at < piece.start; });
  if (after == pieces_.begin()) return nullptr;
  const Piece& piece = *(after - 1);
  if (piece.is_doubtful) *is_doubtful = true;
  return piece.mapping;
}

}  // namespace dlhook::analyzer::symbols
