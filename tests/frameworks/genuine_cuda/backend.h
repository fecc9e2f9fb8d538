// The few declarations of libcudnn.so.9 that this victim needs, written by hand: it is built without NVIDIA's headers.
// Numbers: cudnn_graph_v9.h.
// Thread: the victim has one. No part of dlhook is linked or included here.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace genuine {

// cudnnBackendDescriptorType_t
enum BackendType {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfiguration = 3,
  kHeuristic = 4,
  kPlan = 5,
  kKnobChoice = 7,
  kConvolutionForward = 10,
  kConvolutionBackwardFilter = 11,
  kConvolutionBackwardData = 12,
  kOperationPointwise = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kOperationMatmul = 19,
  kReduction = 21,
  kOperationReduction = 22,
  kResample = 24,
  kOperationResampleForward = 25,
  kNormForward = 29,
  kNormBackward = 30,
  kDeviceProperties = 38,
  kAttentionForward = 41
};

// cudnnBackendAttributeType_t
enum ValueType {
  kDataType = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kDouble = 5,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kKnobType = 9,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kDescriptor = 15,
  kReductionOperator = 18,
  kBehaviorNote = 19,
  kResampleMode = 21,
  kPaddingMode = 22,
  kChar = 24,
  kNormMode = 27,
  kNormPhase = 28
};

// cudnnDataType_t
enum DataType { kF32 = 0, kF16 = 2, kBf16 = 9 };

using Handle = void*;

struct Api {
  int (*create)(int type, Handle* descriptor);
  int (*destroy)(Handle descriptor);
  int (*finalize)(Handle descriptor);
  int (*set)(Handle descriptor, int name, int type, int64_t count, const void* elements);
  int (*get)(Handle descriptor, int name, int type, int64_t requested, int64_t* returned, void* elements);
  int (*execute)(Handle handle, Handle plan, Handle variant_pack);
};
extern Api g_api;

// The address of `name` in a library, as a program that opens libraries at run time finds it. Ends the program if there
// is none.
void* Lookup(void* library, const char* name);

#define GENUINE_CHECK(call)                                                               \
  do {                                                                                    \
    int status_of_call = (call);                                                          \
    if (status_of_call != 0) {                                                            \
      std::fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status_of_call); \
      std::exit(3);                                                                       \
    }                                                                                     \
  } while (0)

// Owns one descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int type) { GENUINE_CHECK(g_api.create(type, &handle_)); }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Descriptor() {
    if (handle_ != nullptr) g_api.destroy(handle_);
  }
  Handle get() const { return handle_; }

  Descriptor& Set(int name, int type, const void* elements, int64_t count = 1) {
    GENUINE_CHECK(g_api.set(handle_, name, type, count, elements));
    return *this;
  }
  Descriptor& Numbers(int name, const std::vector<int64_t>& values) {
    return Set(name, kInt64, values.data(), static_cast<int64_t>(values.size()));
  }
  Descriptor& Number(int name, int64_t value) { return Set(name, kInt64, &value); }
  Descriptor& Enum(int name, int type, int32_t value) { return Set(name, type, &value); }
  Descriptor& Bool(int name, bool value) { return Set(name, kBoolean, &value); }
  Descriptor& Float(int name, float value) { return Set(name, kFloat, &value); }
  Descriptor& Child(int name, const Descriptor& child) { return Set(name, kDescriptor, &child.handle_); }
  Descriptor& Text(int name, const std::string& text) {
    return Set(name, kChar, text.data(), static_cast<int64_t>(text.size()));
  }
  int TryFinalize() { return g_api.finalize(handle_); }
  Descriptor& Finalize() {
    GENUINE_CHECK(TryFinalize());
    return *this;
  }

  int64_t AskNumber(int name, int64_t otherwise) const {
    int64_t returned = 0;
    int64_t value = otherwise;
    return g_api.get(handle_, name, kInt64, 1, &returned, &value) == 0 && returned == 1 ? value : otherwise;
  }

 private:
  Handle handle_ = nullptr;
};

}  // namespace genuine
