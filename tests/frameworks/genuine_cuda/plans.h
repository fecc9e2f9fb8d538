// Plans of operation graphs: made, executed without a device (which fails), and written in the library's own words.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "backend.h"
#include "graphs.h"

namespace genuine {

// cudnnBackendHeurMode_t
enum HeuristicMode { kInstant = 0, kModeB = 1, kFallback = 2, kModeA = 3 };

class Planner {
 public:
  // Writes one line of JSON per cudnnBackendExecute, in the order of the calls, to `out`.
  Planner(const std::string& device_properties, std::FILE* out);

  // Up to `wanted` plans recommended by the heuristics, from place `first` on. The graph is destroyed afterwards.
  void PlanByHeuristics(const std::string& name, Graph graph, HeuristicMode mode, int first, int wanted);
  // The first engine from `engine` on that accepts the graph, chosen by its number.
  void PlanByNumber(const std::string& name, Graph graph, int64_t engine);
  // A plan of the heuristics, passed as text to a new one, like XLA's autotuning cache.
  void PlanByText(const std::string& name, Graph graph);
  // Every plan of the heuristics executed with one variant pack, like autotuning frontends.
  void Tune(const std::string& name, Graph graph, HeuristicMode mode, int wanted);

 private:
  struct Origin {
    const char* chooser;
    int mode, rank, failed_before;
    int64_t requested, returned;
  };
  struct Made {
    Descriptor plan;
    Origin origin;
    std::vector<int64_t> uids;
  };
  std::vector<Made> Make(Graph graph, HeuristicMode mode, int first, int wanted, const std::string& name);
  void Execute(const std::string& name, const Made& made, Descriptor* pack, int times, bool seen_before);
  void Refuse(const std::string& name, const char* what, int status);

  Descriptor device_;
  std::FILE* out_;
};

}  // namespace genuine
