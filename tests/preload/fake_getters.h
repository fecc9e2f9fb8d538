// Getters for the decoders of CUDA's calls: a small library with the vendors' getters, whose results the tests set. A
// descriptor is the address of one of the structures here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace dlhook {

struct FakeAnswers {
  int status = 0;  // of every getter: if not 0, nothing is written
  int calls = 0;   // of getters other than cudaRuntimeGetVersion
  int runtime_version = 13000;
  int pointer_type = 0;  // cudaMemoryType, CUmemorytype
  int pointer_status = 0;
  int is_managed = 0;
  uint64_t asked_address = 0;
  int capture_status = 0;  // cudaStreamCaptureStatus
  const void* asked_stream = nullptr;
  const void* handle_stream = nullptr;  // of every handle
  int math_mode = 0;
  int rank = 0;
  int ranks = 0;
  const char* function_name = nullptr;
};

// cuBLASLt's objects: attributes with the size that the library requires.
struct FakeAttribute {
  int name;
  size_t bytes;
  int64_t value;
};
struct FakeAttributes {
  FakeAttribute list[12];
};

struct FakeTensor {
  int type;
  int dims;
  int dim[8];
  int stride[8];
  int format;  // of filters
};
struct FakeConvolution {
  int dims;
  int pad[6], stride[6], dilation[6];
  int mode, type, groups, math_type;
};
struct FakePooling {
  int mode, dims;
  int window[6], pad[6], stride[6];
};
struct FakeRnn {
  int algorithm, cell, precision, math_type, layers;
};
struct FakeRnnData {
  int type, layout, length, batch, vector;
};
struct FakeSparse {
  int64_t rows, columns, nonzeros;
};
struct FakeDense {
  int64_t rows, columns, ld;
  int type, order;
};

// The backend's description of every plan.
struct FakeBackend {
  int64_t workspace_bytes = 0;
  int64_t engine = -1;
  int32_t knobs = 0;
  int32_t knob_types[64] = {};
  int64_t knob_values[64] = {};
  int32_t notes = 0;  // of either kind
  int32_t numerical_notes[40] = {};
  int32_t behavior_notes[40] = {};
  int32_t refused_name = -1;  // the getter of this attribute fails
  int live = 0;               // descriptors created and not destroyed
};

}  // namespace dlhook

// Each library has its own results, and functions to pass to decoders as the real one.
extern "C" {
dlhook::FakeAnswers* FakeRuntimeAnswers();
dlhook::FakeAnswers* FakeDriverAnswers();
dlhook::FakeBackend* FakeBackendAnswers();
void FakeRuntimeFunction();
void FakeDriverFunction();
}
