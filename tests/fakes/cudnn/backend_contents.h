// The contents of descriptors of the fake cuDNN's graph API.
//
// Contents are shared and never changed once another descriptor refers to them: so frontends may destroy tensors,
// operations and graphs right after use, as they do, and an address may be reused.
#pragma once

#include <cstring>
#include <map>
#include <memory>

#include "cudnn.h"

namespace backend {

// cudnnBackendDescriptorType_t
enum Kind {
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kKnobChoice = 7,
  kForward = 10,
  kBackwardFilter = 11,
  kBackwardData = 12,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 19
};

// cudnnBackendAttributeName_t
enum Name {
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kConfigKnobs = 302,
  kConfigWorkspace = 303,
  kConfigSharedMemory = 304,
  kPlanConfig = 401,
  kPlanWorkspace = 402,
  kPlanJson = 405,
  kKnobType = 600,
  kKnobValue = 601,
  kGraphOperations = 801,
  kTensorType = 901,
  kTensorSizes = 902,
  kTensorStrides = 903,
  kEngineGraph = 1300,
  kEngineIndex = 1301,
  kEngineNumericalNote = 1303,
  kEngineBehaviorNote = 1305
};

// cudnnBackendAttributeType_t
enum Type {
  kInt64 = 3,
  kPointer = 6,
  kKnob = 9,
  kNumericalNote = 11,
  kDescriptor = 15,
  kBehaviorNote = 19,
  kInt32 = 23,
  kChar = 24
};

struct Contents;
using Shared = std::shared_ptr<Contents>;

struct Value {
  int type = 0;
  int64_t count = 0;
  std::string bytes;
  std::vector<Shared> children;
};

struct Contents {
  int kind = 0;
  std::map<int, Value> values;
};

// --- building and reading them ---

size_t ElementBytes(int type);
void PutBytes(Contents* contents, int name, int type, int64_t count, const void* data);
void PutInt64(Contents* contents, int name, int64_t number);
void PutChildren(Contents* contents, int name, const std::vector<Shared>& children);
const Value* Find(const Shared& contents, int name);
Shared Child(const Shared& contents, int name);
int64_t Number(const Shared& contents, int name, int64_t otherwise);
std::vector<int64_t> Numbers(const Shared& contents, int name);
int64_t Product(const std::vector<int64_t>& numbers, size_t from);

// --- plans ---

// The configurations that a finalized heuristic recommends, best first.
std::vector<Shared> Recommend(const Shared& heuristic);

// The cost of a finalized plan and, for the log, what it computes.
Shared EngineOf(const Shared& plan);
int64_t PlanTime(const Shared& plan, std::string* kinds);
bool ChannelsLast(const Shared& plan);
void NoteConvolution(const Shared& plan);

bool Finalizable(int64_t engine);
int64_t WorkspaceOf(int64_t engine);

}  // namespace backend
