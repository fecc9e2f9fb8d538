// libcudnn, graph API: the engines, and the cost of plans. DLHOOK_FAKE_ENGINES, _FALLBACK_ENGINES and _UNFINALIZABLE:
// README.md.
#include <cstdio>
#include <cstdlib>

#include "backend_contents.h"

namespace backend {

// --- engines ---

struct Engine {
  int id = 0, percent = 100;
};

std::vector<Engine> Engines(bool fallback) {
  std::vector<Engine> engines;
  const char* text = fallback ? fake::Setting("FALLBACK_ENGINES", "0:140,2:200")
                              : fake::Setting("ENGINES", "1:120,0:140,28:100,34:90");
  while (*text != 0) {
    Engine engine;
    int length = 0;
    if (sscanf(text, "%d:%d%n", &engine.id, &engine.percent, &length) != 2) {
      fprintf(stderr, "DLHOOK_FAKE_ENGINES: found '%s', expected ENGINE:PERCENT\n", text);
      abort();
    }
    engines.push_back(engine);
    text += length;
    if (*text == ',') ++text;
  }
  return engines;
}

int PercentOf(int64_t id) {
  for (const bool fallback : {false, true}) {
    for (const Engine& engine : Engines(fallback)) {
      if (engine.id == id) return engine.percent;
    }
  }
  return 100;
}

bool Finalizable(int64_t engine) {
  const std::string list = std::string(",") + fake::Setting("UNFINALIZABLE", "") + ",";
  return list.find("," + std::to_string(engine) + ",") == std::string::npos;
}

// The rule of these fakes: even engines need no workspace, odd ones 1 MiB; only engine 0 uses no tensor cores.
int64_t WorkspaceOf(int64_t engine) { return engine % 2 == 0 ? 0 : 1 << 20; }

Shared MakeKnob(int type, int64_t value) {
  auto knob = std::make_shared<Contents>();
  knob->kind = kKnobChoice;
  PutBytes(knob.get(), kKnobType, kKnob, 1, &type);
  PutInt64(knob.get(), kKnobValue, value);
  return knob;
}

Shared MakeConfig(int engine_id, const Shared& graph) {
  auto engine = std::make_shared<Contents>();
  engine->kind = kEngine;
  PutInt64(engine.get(), kEngineIndex, engine_id);
  PutChildren(engine.get(), kEngineGraph, {graph});
  const int tensor_core = 0, runtime_compilation = 0;
  PutBytes(engine.get(), kEngineNumericalNote, kNumericalNote, engine_id != 0 ? 1 : 0, &tensor_core);
  PutBytes(engine.get(), kEngineBehaviorNote, kBehaviorNote, engine_id == 28 ? 1 : 0, &runtime_compilation);

  auto config = std::make_shared<Contents>();
  config->kind = kEngineConfig;
  PutChildren(config.get(), kConfigEngine, {engine});
  PutChildren(config.get(), kConfigKnobs, {MakeKnob(24, engine_id + 1), MakeKnob(2, 1)});  // KERNEL_CFG, SPLIT_K
  PutInt64(config.get(), kConfigWorkspace, WorkspaceOf(engine_id));
  const int32_t shared_memory = 48 << 10;
  PutBytes(config.get(), kConfigSharedMemory, kInt32, 1, &shared_memory);
  return config;
}

std::vector<Shared> Recommend(const Shared& heuristic) {
  std::vector<Shared> configs;
  const bool fallback = Number(heuristic, kHeuristicMode, 0) == 2;
  for (const Engine& engine : Engines(fallback))
    configs.push_back(MakeConfig(engine.id, Child(heuristic, kHeuristicGraph)));
  return configs;
}

// --- cost and name of a plan ---

Shared EngineOf(const Shared& plan) { return Child(Child(plan, kPlanConfig), kConfigEngine); }

// The tensors of a convolution, by attribute: the output (or its gradient), the filter, the input,
// the convolution itself.
struct Operands {
  int output, filter, input, convolution;
  const char *output_name, *filter_name, *input_name;
};

const Operands* OperandsOf(const Shared& operation) {
  static const std::map<int, Operands> known = {{kForward, {705, 703, 704, 702, "y", "w", "x"}},
                                                {kBackwardData, {711, 709, 710, 708, "dy", "w", "dx"}},
                                                {kBackwardFilter, {717, 715, 716, 714, "dy", "dw", "x"}}};
  const auto entry = known.find(operation->kind);
  return entry != known.end() ? &entry->second : nullptr;
}

int64_t OperationTime(const Shared& operation, int percent) {
  if (const Operands* operands = OperandsOf(operation)) {
    const auto output = Numbers(Child(operation, operands->output), kTensorSizes);
    const auto filter = Numbers(Child(operation, operands->filter), kTensorSizes);
    return ConvolutionTime(Product(output, 0), Product(filter, 1), percent);
  }
  if (operation->kind == kMatmul) {
    const auto a = Numbers(Child(operation, 1520), kTensorSizes), c = Numbers(Child(operation, 1522), kTensorSizes);
    return fake::ProductTime(Product(c, 0), 1, a.empty() ? 1 : a.back(), 1);
  }
  return fake::Slowed(1000);
}

void NoteTensor(const char* name, const Shared& tensor) {
  NoteNumbers(name, Numbers(tensor, kTensorSizes), Numbers(tensor, kTensorStrides));
  fake::Note("%s_type=%d", name, static_cast<int>(Number(tensor, kTensorType, -1)));
}

// Notes the operands of the first convolution, as the library understood them.
void NoteConvolution(const Shared& plan) {
  const Value* operations = Find(Child(EngineOf(plan), kEngineGraph), kGraphOperations);
  if (operations == nullptr) return;
  for (const Shared& operation : operations->children) {
    const Operands* operands = OperandsOf(operation);
    if (operands == nullptr) continue;
    NoteTensor(operands->input_name, Child(operation, operands->input));
    NoteTensor(operands->filter_name, Child(operation, operands->filter));
    NoteTensor(operands->output_name, Child(operation, operands->output));
    const Shared convolution = Child(operation, operands->convolution);
    NoteNumbers("pad", Numbers(convolution, 105), {});
    NoteNumbers("stride", Numbers(convolution, 103), {});
    NoteNumbers("dilation", Numbers(convolution, 102), {});
    return;
  }
}

int64_t PlanTime(const Shared& plan, std::string* kinds) {
  const int percent = PercentOf(Number(EngineOf(plan), kEngineIndex, 0));
  int64_t nanoseconds = 0;
  const Value* operations = Find(Child(EngineOf(plan), kEngineGraph), kGraphOperations);
  if (operations == nullptr) return 2000;
  for (const Shared& operation : operations->children) {
    nanoseconds += OperationTime(operation, percent);
    *kinds += (kinds->empty() ? "" : "+") + std::to_string(operation->kind);
  }
  return nanoseconds;
}

// From the first operation's operands: any of a convolution's three decides.
bool ChannelsLast(const Shared& plan) {
  const Shared operation = Child(Child(EngineOf(plan), kEngineGraph), kGraphOperations);
  if (operation == nullptr) return false;
  for (const int operand : {704, 711, 717}) {  // X of a forward, DY of the backward ones
    const auto strides = Numbers(Child(operation, operand), kTensorStrides);
    if (strides.size() > 1) return strides[1] == 1;
  }
  return false;
}

}  // namespace backend
