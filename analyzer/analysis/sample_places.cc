#include "analyzer/analysis/sample_places.h"

#include "analyzer/io/byte_source.h"

namespace dlhook::analyzer::inline analysis {
namespace {

constexpr char kPythonCode[] = "Python";
constexpr char kNoOwner[] = "[not known]";

}  // namespace

std::string CodeOwner(absl::string_view object) {
  const std::string file = BaseName(object);
  const bool is_module = absl::StrContains(file, ".cpython-") || absl::StrContains(file, ".abi3.so");
  if (!is_module) {
    const size_t end = file.find(".so");
    return end == std::string::npos ? file : file.substr(0, end + 3);
  }
  const size_t packages = object.rfind("-packages/");
  const absl::string_view inside = packages == absl::string_view::npos ? file : object.substr(packages + 10);
  const std::string name = absl::StrReplaceAll(inside.substr(0, inside.rfind('/') + 1 + file.find('.')), {{"/", "."}});
  const size_t dot = name.rfind('.');  // cv2.cv2
  const bool is_twice = dot != std::string::npos && name.substr(0, dot) == name.substr(dot + 1);
  return is_twice ? name.substr(0, dot) : name;
}

SamplePlaces::SamplePlaces(const TraceModel& model) : model_(model) {
  others_ = Place("others", 0);
  if (model.samples.empty()) return;
  const std::vector<PythonPlace> lines = ReadPythonPlaces(model);
  const std::vector<ModuleName> modules = NameModules(model, lines);
  CallStacks stacks(model);
  std::map<std::pair<FrameIndex, StackIndex>, std::pair<SamplePlaceIndex, SamplePlaceIndex>> alike;
  for (size_t sample = 0; sample < model.samples.size(); ++sample) {
    const StackIndex python = model.samples.python_stack[sample];
    const auto [at, is_new] = alike.try_emplace({model.samples.frame[sample], python});
    if (is_new) {
      const std::string owner = OwnerName(sample, &stacks);
      std::string place = owner;
      const PythonPlace* const line = python == kNone ? nullptr : &lines[python];
      const std::string module = line == nullptr || line->module() == kNone ? "" : modules[line->module()].name;
      if (!module.empty()) absl::StrAppend(&place, ", ", module);
      if (line != nullptr && line->file != kNone) absl::StrAppend(&place, ", ", LineLabel(model, *line));
      at->second.first = Place(owner, others_);
      at->second.second = place == owner ? at->second.first : Place(place, at->second.first);
    }
    owners_.push_back(at->second.first);
    places_.push_back(at->second.second);
  }
}

std::string SamplePlaces::OwnerName(size_t sample, CallStacks* stacks) const {
  if (model_.samples.state[sample] == SampleState::kLate) return kNoOwner;
  std::string innermost;
  for (const StackEntryIndex index :
       stacks->OfSample(model_.samples.frame[sample], model_.samples.python_stack[sample])) {
    const StackEntry& entry = stacks->entry(index);
    if (entry.kind == StackEntry::Kind::kCut) break;
    if (entry.kind == StackEntry::Kind::kPython) return kPythonCode;
    const std::string owner = CodeOwner(entry.object);
    if (innermost.empty()) innermost = owner;
    if (!owner.empty() && !IsSharedCode(entry.object)) return owner;
  }
  return innermost.empty() ? kNoOwner : innermost;
}

SamplePlaceIndex SamplePlaces::Place(const std::string& name, SamplePlaceIndex owner) {
  const auto [at, is_new] = known_.try_emplace(name, static_cast<SamplePlaceIndex>(names_.size()));
  if (is_new) {
    names_.push_back(name);
    owner_of_.push_back(owner);
  }
  return at->second;
}

bool SamplePlaces::IsPython(SamplePlaceIndex place) const { return names_[owner_of_[place]] == kPythonCode; }

SampleSums SamplePlaces::Joined(const SampleSums& places) const {
  SampleSums joined = places;
  for (int level = 0; level < 2; ++level) {
    SampleSums next;
    for (const auto& [place, sum] : joined) next[sum.samples < kFewestOfPlace ? owner_of_[place] : place].Add(sum);
    joined = std::move(next);
  }
  return joined;
}

}  // namespace dlhook::analyzer::analysis
