// cuDNN's graph interface called in the same order as by cudnn-frontend: descriptors created, set and finalized from
// the leaves up, heuristics' results returned in existing configurations, everything but the plan destroyed before the
// first execution, a separate variant pack for every execution.
#pragma once

#include "tell.h"

static int (*cudnnCreate)(void** handle);
static int (*cudnnDestroy)(void* handle);
static int (*cudnnSetStream)(void* handle, void* stream);
static int (*cudnnBackendCreateDescriptor)(int type, void** descriptor);
static int (*cudnnBackendDestroyDescriptor)(void* descriptor);
static int (*cudnnBackendSetAttribute)(void* descriptor, int name, int type, int64_t count, const void* elements);
static int (*cudnnBackendGetAttribute)(const void* descriptor, int name, int type, int64_t requested, int64_t* returned,
                                       void* elements);
static int (*cudnnBackendFinalize)(void* descriptor);
static int (*cudnnBackendExecute)(void* handle, void* plan, void* pack);

static inline void LoadCudnn(void* library) {
  LOAD(library, cudnnCreate);
  LOAD(library, cudnnDestroy);
  LOAD(library, cudnnSetStream);
  LOAD(library, cudnnBackendCreateDescriptor);
  LOAD(library, cudnnBackendDestroyDescriptor);
  LOAD(library, cudnnBackendSetAttribute);
  LOAD(library, cudnnBackendGetAttribute);
  LOAD(library, cudnnBackendFinalize);
  LOAD(library, cudnnBackendExecute);
}

// cudnnBackendAttributeType_t
enum {
  kHandle,
  kDataType,
  kBoolean,
  kInt64,
  kFloat = 4,
  kVoid = 6,
  kConvolutionMode,
  kHeuristicMode,
  kPointwiseMode = 14,
  kDescriptor,
  kChar = 24
};

enum { kMostPlans = 8 };

typedef struct {
  int64_t n, c, h, w, k, r, pad, stride;
  int channels_last, data_type, with_relu;
} Problem;

typedef struct {
  void* descriptor;
  int64_t engine, workspace_bytes;
  int rank, of, failed_before;  // from the heuristics
} Plan;

enum { kUidX = 'x', kUidW = 'w', kUidY = 'y', kUidMiddle = 'm' };

static inline void* New(int type) {
  void* descriptor;
  QUIET(cudnnBackendCreateDescriptor, type, &descriptor);
  return descriptor;
}

static inline void Set(void* descriptor, int name, int type, int64_t count, const void* elements) {
  QUIET(cudnnBackendSetAttribute, descriptor, name, type, count, elements);
}

static inline void SetChild(void* descriptor, int name, void* child) { Set(descriptor, name, kDescriptor, 1, &child); }
static inline void Destroy(void* descriptor) { QUIET(cudnnBackendDestroyDescriptor, descriptor); }

static inline void* Finalized(void* descriptor) {
  QUIET(cudnnBackendFinalize, descriptor);
  return descriptor;
}

static inline void* NewTensor(const int64_t dim[4], int channels_last, int data_type, int64_t uid, int is_virtual) {
  const int64_t planar[] = {dim[1] * dim[2] * dim[3], dim[2] * dim[3], dim[3], 1};
  const int64_t last[] = {dim[1] * dim[2] * dim[3], 1, dim[3] * dim[1], dim[1]};
  const int64_t alignment = 16;
  char yes = (char)is_virtual;
  void* tensor = New(17);
  Set(tensor, 901, kDataType, 1, &data_type);
  Set(tensor, 902, kInt64, 4, dim);
  Set(tensor, 903, kInt64, 4, channels_last ? last : planar);
  Set(tensor, 906, kInt64, 1, &uid);
  Set(tensor, 900, kInt64, 1, &alignment);
  if (is_virtual) Set(tensor, 907, kBoolean, 1, &yes);
  return Finalized(tensor);
}

static inline int64_t OutputSize(const Problem* problem, int64_t size) {
  return (size + 2 * problem->pad - problem->r) / problem->stride + 1;
}

static inline void* NewConvolution(const Problem* problem) {
  const int64_t dims = 2, pads[] = {problem->pad, problem->pad}, strides[] = {problem->stride, problem->stride},
                ones[] = {1, 1};
  int compute = 0, mode = 1;  // FLOAT, CROSS_CORRELATION
  void* convolution = New(1);
  Set(convolution, 100, kDataType, 1, &compute);
  Set(convolution, 101, kConvolutionMode, 1, &mode);
  Set(convolution, 106, kInt64, 1, &dims);
  Set(convolution, 105, kInt64, 2, pads);
  Set(convolution, 104, kInt64, 2, pads);
  Set(convolution, 103, kInt64, 2, strides);
  Set(convolution, 102, kInt64, 2, ones);
  return Finalized(convolution);
}

// The engine configurations from the heuristics for y = [relu](convolution of x with w).
static inline int Configurations(void* handle, const Problem* problem, void** configurations) {
  const int64_t x_dim[] = {problem->n, problem->c, problem->h, problem->w},
                w_dim[] = {problem->k, problem->c, problem->r, problem->r};
  const int64_t y_dim[] = {problem->n, problem->k, OutputSize(problem, problem->h), OutputSize(problem, problem->w)};
  const float one = 1, zero = 0;
  void* trash[16];
  int used = 0;
  void* x = trash[used++] = NewTensor(x_dim, problem->channels_last, problem->data_type, kUidX, 0);
  void* w = trash[used++] = NewTensor(w_dim, problem->channels_last, problem->data_type, kUidW, 0);
  void* y = trash[used++] = NewTensor(y_dim, problem->channels_last, problem->data_type, kUidY, 0);
  void* result = y;
  if (problem->with_relu)
    result = trash[used++] = NewTensor(y_dim, problem->channels_last, problem->data_type, kUidMiddle, 1);
  void* convolution = trash[used++] = NewConvolution(problem);
  void* operations[2];
  operations[0] = trash[used++] = New(10);
  SetChild(operations[0], 704, x);
  SetChild(operations[0], 703, w);
  SetChild(operations[0], 705, result);
  SetChild(operations[0], 702, convolution);
  Set(operations[0], 700, kFloat, 1, &one);
  Set(operations[0], 701, kFloat, 1, &zero);
  Finalized(operations[0]);
  if (problem->with_relu) {
    int mode = 100, precision = 0;  // RELU_FWD, FLOAT
    void* relu = trash[used++] = New(0);
    Set(relu, 0, kPointwiseMode, 1, &mode);
    Set(relu, 1, kDataType, 1, &precision);
    Finalized(relu);
    operations[1] = trash[used++] = New(13);
    SetChild(operations[1], 750, relu);
    SetChild(operations[1], 751, result);
    SetChild(operations[1], 753, y);
    Finalized(operations[1]);
  }
  void* graph = trash[used++] = New(15);
  Set(graph, 800, kHandle, 1, &handle);
  Set(graph, 801, kDescriptor, problem->with_relu ? 2 : 1, operations);
  Finalized(graph);
  int mode = 0;  // INSTANT
  int64_t count = 0, returned = 0;
  void* heuristics = trash[used++] = New(4);
  SetChild(heuristics, 201, graph);
  Set(heuristics, 200, kHeuristicMode, 1, &mode);
  Finalized(heuristics);
  QUIET(cudnnBackendGetAttribute, heuristics, 202, kDescriptor, 0, &count, NULL);
  if (count > kMostPlans) count = kMostPlans;
  for (int64_t i = 0; i < count; ++i) configurations[i] = New(3);
  QUIET(cudnnBackendGetAttribute, heuristics, 202, kDescriptor, count, &returned, configurations);
  for (int i = used; i-- > 0;) Destroy(trash[i]);
  return (int)returned;
}

static inline int64_t EngineOf(void* configuration) {
  int64_t id = -1, count = 0;
  void* engine = New(2);
  QUIET(cudnnBackendGetAttribute, configuration, 300, kDescriptor, 1, &count, &engine);
  QUIET(cudnnBackendGetAttribute, engine, 1301, kInt64, 1, &count, &id);
  Destroy(engine);
  return id;
}

// A plan for each configuration that can be finalized.
static inline int BuildPlans(void* handle, const Problem* problem, Plan* plans) {
  void* configurations[kMostPlans];
  const int count = Configurations(handle, problem, configurations);
  int built = 0;
  for (int i = 0; i < count; ++i) {
    Plan* plan = &plans[built];
    *plan = (Plan){.descriptor = New(5),
                   .engine = EngineOf(configurations[i]),
                   .rank = i,
                   .of = count,
                   .failed_before = i - built};
    Set(plan->descriptor, 400, kHandle, 1, &handle);
    SetChild(plan->descriptor, 401, configurations[i]);
    if (cudnnBackendFinalize(plan->descriptor) == 0) {
      int64_t returned;
      QUIET(cudnnBackendGetAttribute, plan->descriptor, 402, kInt64, 1, &returned, &plan->workspace_bytes);
      ++built;
    } else {
      Destroy(plan->descriptor);
    }
    Destroy(configurations[i]);
  }
  return built;
}

static inline const char* PlanFacts(const Problem* problem, const Plan* plan, const char* more) {
  static __thread char facts[1024];
  static const char* const kTypes[] = {"F32", "F64", "F16"};
  snprintf(
      facts, sizeof facts,
      "cudnn.operation=convolution_forward cudnn.plan.engine=%d cudnn.plan.heuristic_rank=%d "
      "cudnn.plan.heuristic_results=%d "
      "cudnn.plan.failed_before=%d cudnn.workspace_bytes=%d cudnn.tensor[X].dim=%dx%dx%dx%d cudnn.tensor[X].type=%s "
      "cudnn.tensor[X].stride=%dx%dx%dx%d cudnn.tensor[W].dim=%dx%dx%dx%d cudnn.pad=%dx%d cudnn.stride=%dx%d %s",
      (int)plan->engine, plan->rank, plan->of, plan->failed_before, (int)plan->workspace_bytes, (int)problem->n,
      (int)problem->c, (int)problem->h, (int)problem->w, kTypes[problem->data_type],
      (int)(problem->c * problem->h * problem->w), problem->channels_last ? 1 : (int)(problem->h * problem->w),
      (int)(problem->w * (problem->channels_last ? problem->c : 1)), problem->channels_last ? (int)problem->c : 1,
      (int)problem->k, (int)problem->c, (int)problem->r, (int)problem->r, (int)problem->pad, (int)problem->pad,
      (int)problem->stride, (int)problem->stride, more);
  return facts;
}

// Executes a plan with a variant pack made for this call.
static inline void ExecutePlan(void* handle, const char* facts, const Plan* plan, void* x, void* w, void* y) {
  const int64_t uids[] = {kUidX, kUidW, kUidY};
  void* pointers[] = {x, w, y};
  void* workspace = NULL;
  void* pack = New(16);
  Set(pack, 1001, kVoid, 3, pointers);
  Set(pack, 1000, kInt64, 3, uids);
  Set(pack, 1003, kVoid, 1, &workspace);
  Finalized(pack);
  printf("operands %#llx %#llx %#llx\n", (long long)x, (long long)w, (long long)y);
  DO(facts, cudnnBackendExecute, handle, plan->descriptor, pack);
  Destroy(pack);
}
