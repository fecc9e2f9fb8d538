// A program that uses the genuine libcudnn and libcublasLt on a machine without a device: plans for a device described
// by a file, calls that fail. Writes the libraries' own descriptions, which test_plans.py and test_direct.py compare
// with dlhook's records.
//
//   victim_genuine plans LIBRARY DEVICE_PROPERTIES OUT [LAYER_STEP]
//   victim_genuine graphs LIBRARY DEVICE_PROPERTIES OUT
//   victim_genuine legacy LIBRARY OUT
//   victim_genuine lt LIBRARY OUT
#include <dlfcn.h>

#include <fstream>
#include <sstream>

#include "backend.h"
#include "direct.h"
#include "graphs.h"
#include "networks.h"
#include "plans.h"

namespace genuine {

Api g_api;

void* Lookup(void* library, const char* name) {
  void* address = dlsym(library, name);
  if (address == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::exit(2);
  }
  return address;
}

namespace {

void* Open(const char* path) {
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(2);
  }
  return library;
}

template <typename Function>
void Load(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(Lookup(library, name));
}

void LoadBackend(void* library) {
  Load(library, "cudnnBackendCreateDescriptor", &g_api.create);
  Load(library, "cudnnBackendDestroyDescriptor", &g_api.destroy);
  Load(library, "cudnnBackendFinalize", &g_api.finalize);
  Load(library, "cudnnBackendSetAttribute", &g_api.set);
  Load(library, "cudnnBackendGetAttribute", &g_api.get);
  Load(library, "cudnnBackendExecute", &g_api.execute);
}

// Each layer in three directions; types, memory orders and heuristic modes rotate so that every combination occurs.
void PlanNetworks(Planner* planner, int step) {
  constexpr DataType kTypes[] = {kF16, kF32, kBf16};
  constexpr HeuristicMode kModes[] = {kModeA, kInstant, kModeB, kFallback};
  constexpr int kLayerCount = sizeof kLayers / sizeof *kLayers;
  for (int layer = 0; layer < kLayerCount; layer += step) {
    for (int direction = 0; direction < 3; ++direction) {
      for (int type = 0; type < 3; ++type) {
        for (int order = 0; order < 2; ++order) {
          int place = layer + direction + type + order;
          Variant variant = {static_cast<Direction>(direction), kTypes[type], order == 1};
          planner->PlanByHeuristics(NameOf(kLayers[layer], variant), ConvolutionGraph(kLayers[layer], variant),
                                    kModes[place % 4], place % 3, 2);
        }
      }
    }
  }
}

void PlanGraphs(Planner* planner) {
  constexpr Variant kVariant = {Direction::kForward, kF16, true};
  const Layer& layer = kLayers[16];
  Layer dilated = {"dilated", 8, 64, 33, 47, 128, 3, 3, 2, 1, 1, 2};
  planner->PlanByHeuristics("fused", FusedConvolutionGraph(layer, kVariant), kModeA, 0, 3);
  planner->PlanByHeuristics("dilated", ConvolutionGraph(dilated, kVariant), kModeA, 0, 2);
  planner->PlanByHeuristics("uneven", ConvolutionWithUnevenPadGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("volume", VolumeConvolutionGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("matmul", MatmulGraph(false), kModeA, 0, 2);
  planner->PlanByHeuristics("matmul fused", MatmulGraph(true), kModeA, 0, 2);
  planner->PlanByHeuristics("reduction", ReductionGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("pooling", PoolingGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("layer norm", LayerNormGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("batch norm", BatchNormGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("norm backward", NormBackwardGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("attention", AttentionGraph(), kModeA, 0, 2);
  planner->PlanByHeuristics("attention of parts", AttentionOfPartsGraph(), kModeA, 0, 1);
  planner->PlanByHeuristics("matmul of relu", MatmulOfReluGraph(), kModeA, 0, 1);
  planner->PlanByNumber("by number", ConvolutionGraph(layer, kVariant), 0);
  planner->PlanByText("text convolution", ConvolutionGraph(layer, kVariant));
  planner->PlanByText("text fused", FusedConvolutionGraph(layer, kVariant));
  planner->PlanByText("text matmul", MatmulGraph(false));
  planner->Tune("tuned", ConvolutionGraph(kLayers[3], kVariant), kModeA, 4);
}

std::string ReadFile(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void MakePlans(bool networks, void* library, char** argv, int argc, std::FILE* out) {
  LoadBackend(library);
  Planner planner(ReadFile(argv[3]), out);
  if (networks) {
    PlanNetworks(&planner, argc > 5 ? std::atoi(argv[5]) : 1);
  } else {
    PlanGraphs(&planner);
  }
}

int Main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string what = argv[1];
  bool plans = what == "plans" || what == "graphs";
  if (plans && argc < 5) return 2;
  void* library = Open(argv[2]);
  std::FILE* out = std::fopen(argv[plans ? 4 : 3], "w");
  if (out == nullptr) return 2;
  if (plans) MakePlans(what == "plans", library, argv, argc, out);
  if (what == "legacy") CallLegacy(library, out);
  if (what == "lt") CallLt(library, out);
  return std::fclose(out);
}

}  // namespace
}  // namespace genuine

int main(int argc, char** argv) { return genuine::Main(argc, argv); }
