// Where samples found threads computing, in the words of a reader: whose code, for which module and line of the program.
#pragma once

#include "analyzer/calls/python_places.h"
#include "analyzer/stacks/call_stacks.h"
#include "analyzer/time/sample_split.h"

namespace dlhook::analyzer::inline analysis {

using SamplePlaceIndex = uint32_t;

// "numpy._core._multiarray_umath" for Python's extension modules, "libonnxruntime.so" for other files, "" without one.
std::string CodeOwner(absl::string_view object);

class SamplePlaces {
 public:
  explicit SamplePlaces(const TraceModel& model);

  // The library of the innermost function outside the C library and what else computes for everyone; Python for Python
  // code.
  SamplePlaceIndex OwnerOf(size_t sample) const { return owners_[sample]; }
  // The same with the module and the line of the program that the thread was in: "cv2, Net.body, detect.py:12".
  SamplePlaceIndex Of(size_t sample) const { return places_[sample]; }
  const std::string& name(SamplePlaceIndex place) const { return names_[place]; }
  bool IsPython(SamplePlaceIndex place) const;

  // Joins places with too few samples to be told apart: first to their owners, then to `others()`.
  SampleSums Joined(const SampleSums& places) const;
  SamplePlaceIndex others() const { return others_; }

 private:
  std::string OwnerName(size_t sample, CallStacks* stacks) const;
  SamplePlaceIndex Place(const std::string& name, SamplePlaceIndex owner);

  const TraceModel& model_;
  std::vector<SamplePlaceIndex> owners_, places_;  // by sample
  std::vector<std::string> names_;                 // by place
  std::vector<SamplePlaceIndex> owner_of_;         // by place
  absl::flat_hash_map<std::string, SamplePlaceIndex> known_;
  SamplePlaceIndex others_ = 0;
};

}  // namespace dlhook::analyzer::analysis
