// See plans.h.
#include "plans.h"

namespace genuine {
namespace {

// Addresses that no device ever had: neither the library nor dlhook may follow them.
void* AddressOf(int64_t uid) {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(0x7fc000000000) +
                                 (static_cast<uintptr_t>(uid) & 0xffff) * 4096);
}

Descriptor VariantPack(const std::vector<int64_t>& uids) {
  std::vector<void*> pointers;
  for (int64_t uid : uids) pointers.push_back(AddressOf(uid));
  void* workspace = reinterpret_cast<void*>(0x7fd000000000);
  Descriptor pack(kVariantPack);
  pack.Set(1001, kPointer, pointers.data(), static_cast<int64_t>(pointers.size())).Numbers(1000, uids);
  pack.Set(1003, kPointer, &workspace).Finalize();
  return pack;
}

std::string TextOf(const Descriptor& plan) {
  constexpr int kText = 405;
  int64_t length = 0;
  if (g_api.get(plan.get(), kText, kChar, 0, &length, nullptr) != 0) return "";
  std::string text(static_cast<size_t>(length), '\0');
  if (g_api.get(plan.get(), kText, kChar, length, &length, text.data()) != 0) return "";
  text.resize(static_cast<size_t>(length));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::string List(const std::vector<int32_t>& values) {
  std::string text;
  for (int32_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}

std::vector<int32_t> Notes(const Descriptor& engine, int name, int type) {
  std::vector<int32_t> notes(32);
  int64_t returned = 0;
  if (g_api.get(engine.get(), name, type, 32, &returned, notes.data()) != 0) returned = 0;
  notes.resize(static_cast<size_t>(returned));
  return notes;
}

// "engine":…,"numerical":[…],"behavior":[…],"knobs":[[type,value],…],"workspace":… as the library reports for a
// finalized plan.
std::string Describe(const Descriptor& plan) {
  constexpr int kConfiguration = 401, kWorkspace = 402, kOfEngine = 300, kChoices = 302, kIndex = 1301;
  Descriptor configuration(kEngineConfiguration);
  Descriptor engine(kEngine);
  Handle handle = configuration.get();
  int64_t returned = 0;
  GENUINE_CHECK(g_api.get(plan.get(), kConfiguration, kDescriptor, 1, &returned, &handle));
  handle = engine.get();
  GENUINE_CHECK(g_api.get(configuration.get(), kOfEngine, kDescriptor, 1, &returned, &handle));
  std::vector<Descriptor> choices;
  std::vector<Handle> handles;
  for (int i = 0; i < 64; ++i) {
    choices.emplace_back(kKnobChoice);
    handles.push_back(choices.back().get());
  }
  if (g_api.get(configuration.get(), kChoices, kDescriptor, 64, &returned, handles.data()) != 0) returned = 0;
  std::string knobs;
  for (int64_t i = 0; i < returned; ++i) {
    int32_t type = -1;
    int64_t one = 0;
    g_api.get(choices[static_cast<size_t>(i)].get(), 600, kKnobType, 1, &one, &type);
    knobs += std::string(i == 0 ? "" : ",") + "[" + std::to_string(type) + "," +
             std::to_string(choices[static_cast<size_t>(i)].AskNumber(601, -1)) + "]";
  }
  return "\"engine\":" + std::to_string(engine.AskNumber(kIndex, -1)) +
         ",\"numerical\":" + List(Notes(engine, 1303, kNumericalNote)) +
         ",\"behavior\":" + List(Notes(engine, 1305, kBehaviorNote)) + ",\"knobs\":[" + knobs +
         "],\"workspace\":" + std::to_string(plan.AskNumber(kWorkspace, -1));
}

struct Answers {
  std::vector<Descriptor> configurations;
  int64_t requested = 0, returned = 0;
};

// The configurations recommended by the heuristics: count first, then descriptors to be filled, as in cudnn-frontend.
Answers Ask(const Descriptor& heuristic, HeuristicMode mode) {
  constexpr int kResults = 202;
  Answers answers;
  GENUINE_CHECK(g_api.get(heuristic.get(), kResults, kDescriptor, 0, &answers.requested, nullptr));
  // Some frontends request all configurations, some a fixed number.
  if (mode == kModeB) answers.requested = 8;
  std::vector<Handle> handles;
  for (int64_t i = 0; i < answers.requested; ++i) {
    answers.configurations.emplace_back(kEngineConfiguration);
    handles.push_back(answers.configurations.back().get());
  }
  GENUINE_CHECK(
      g_api.get(heuristic.get(), kResults, kDescriptor, answers.requested, &answers.returned, handles.data()));
  return answers;
}

}  // namespace

Planner::Planner(const std::string& device_properties, std::FILE* out) : device_(kDeviceProperties), out_(out) {
  device_.Text(2702, device_properties).Finalize();
}

std::vector<Planner::Made> Planner::Make(Graph graph, HeuristicMode mode, int first, int wanted,
                                         const std::string& name) {
  std::vector<Made> made;
  if (graph.status != 0) {
    Refuse(name, "graph", graph.status);
    return made;
  }
  Descriptor heuristic(kHeuristic);
  heuristic.Child(201, graph.descriptor).Enum(200, kHeuristicMode, mode).Child(204, device_);
  if (int status = heuristic.TryFinalize(); status != 0) {
    Refuse(name, "heuristics", status);
    return made;
  }
  Answers answers = Ask(heuristic, mode);
  int failed = 0;
  for (int64_t rank = first; rank < answers.returned && static_cast<int>(made.size()) < wanted; ++rank) {
    Descriptor plan(kPlan);
    plan.Child(401, answers.configurations[static_cast<size_t>(rank)]).Child(407, device_);
    if (plan.TryFinalize() != 0) {
      ++failed;
      continue;
    }
    int place = static_cast<int>(rank);
    made.push_back(
        {std::move(plan), {"HEURISTIC", mode, place, failed, answers.requested, answers.returned}, graph.uids});
  }
  if (made.empty()) Refuse(name, "plans", failed);
  return made;
}

void Planner::Refuse(const std::string& name, const char* what, int status) {
  std::fprintf(stderr, "not planned: %s: %s (%d)\n", name.c_str(), what, status);
}

void Planner::Execute(const std::string& name, const Made& made, Descriptor* pack, int times, bool seen_before) {
  std::string text = TextOf(made.plan);
  std::string described = Describe(made.plan);
  for (int i = 0; i < times; ++i) {
    int status = g_api.execute(nullptr, made.plan.get(), pack->get());
    const Origin& origin = made.origin;
    std::fprintf(out_,
                 "{\"name\":\"%s\",\"chooser\":\"%s\",\"mode\":%d,\"rank\":%d,\"requested\":%lld,\"returned\":%lld,"
                 "\"failed_before\":%d,\"seen_before\":%s,\"status\":%d,%s,\"plan\":%s}\n",
                 name.c_str(), origin.chooser, origin.mode, origin.rank, static_cast<long long>(origin.requested),
                 static_cast<long long>(origin.returned), origin.failed_before, seen_before || i > 0 ? "true" : "false",
                 status, described.c_str(), text.empty() ? "null" : text.c_str());
  }
}

void Planner::PlanByHeuristics(const std::string& name, Graph graph, HeuristicMode mode, int first, int wanted) {
  for (Made& made : Make(std::move(graph), mode, first, wanted, name)) {
    Descriptor pack = VariantPack(made.uids);
    Execute(name, made, &pack, 1, false);
  }
}

void Planner::PlanByNumber(const std::string& name, Graph graph, int64_t first) {
  int failed = 0;
  for (int64_t number = first; number < first + 200; ++number) {
    Descriptor engine(kEngine);
    engine.Child(1300, graph.descriptor).Number(1301, number).Child(1307, device_);
    if (engine.TryFinalize() != 0) continue;
    Descriptor configuration(kEngineConfiguration);
    configuration.Child(300, engine);
    if (configuration.TryFinalize() != 0) continue;
    Descriptor plan(kPlan);
    plan.Child(401, configuration).Child(407, device_);
    if (plan.TryFinalize() != 0) {
      ++failed;
      continue;
    }
    Made made = {std::move(plan), {"FIXED", -1, -1, failed, 0, 0}, graph.uids};
    Descriptor pack = VariantPack(made.uids);
    Execute(name, made, &pack, 1, false);
    return;
  }
  Refuse(name, "engines", failed);
}

void Planner::PlanByText(const std::string& name, Graph graph) {
  std::vector<int64_t> uids = graph.uids;
  std::string text;
  {
    std::vector<Made> first = Make(std::move(graph), kModeA, 0, 1, name);
    if (first.empty()) return;
    text = TextOf(first[0].plan);
  }
  Descriptor plan(kPlan);
  plan.Child(407, device_).Text(405, text);
  if (int status = plan.TryFinalize(); status != 0) return Refuse(name, "text", status);
  Made made = {std::move(plan), {"CACHED", -1, -1, 0, 0, 0}, uids};
  Descriptor pack = VariantPack(uids);
  Execute(name, made, &pack, 2, false);
}

void Planner::Tune(const std::string& name, Graph graph, HeuristicMode mode, int wanted) {
  std::vector<Made> candidates = Make(std::move(graph), mode, 0, wanted, name);
  if (candidates.empty()) return;
  Descriptor pack = VariantPack(candidates[0].uids);
  bool seen_before = false;
  for (const Made& candidate : candidates) {
    Execute(name, candidate, &pack, 2, seen_before);
    seen_before = true;
  }
}

}  // namespace genuine
