// libnvrtc: "compiles" anything; the result is a few bytes, the lowered name of an expression the
// expression itself.
#include <cstring>

#include "fake.h"

namespace {

constexpr int kSuccess = 0;
constexpr char kImage[] = "// an image of the fake NVRTC\n";

struct Program {
  std::vector<std::string>* names = nullptr;
};

}  // namespace

FAKE(int, nvrtcVersion, int* major, int* minor) {
  *major = FAKE_CUDA_VERSION / 1000;
  *minor = FAKE_CUDA_VERSION % 1000 / 10;
  return kSuccess;
}

FAKE(int, nvrtcCreateProgram, void** out, const char*, const char*, int, const char* const*, const char* const*) {
  auto* program = fake::New<Program>();
  program->names = new std::vector<std::string>;
  *out = program;
  return kSuccess;
}

FAKE(int, nvrtcDestroyProgram, void** out) {
  delete static_cast<Program*>(*out)->names;
  fake::Delete(static_cast<Program*>(*out));
  *out = nullptr;
  return kSuccess;
}

FAKE(int, nvrtcGetLoweredName, void* program, const char* expression, const char** lowered) {
  auto* names = static_cast<Program*>(program)->names;
  if (names->capacity() == 0) names->reserve(64);  // pointers into it are returned
  names->push_back(expression);
  *lowered = names->back().c_str();
  return kSuccess;
}

FAKE(int, nvrtcGetCUBINSize, void*, size_t* bytes) {
  *bytes = sizeof kImage;
  return kSuccess;
}

FAKE(int, nvrtcGetCUBIN, void*, char* image) {
  memcpy(image, kImage, sizeof kImage);
  return kSuccess;
}

FAKE(int, nvrtcGetPTXSize, void* program, size_t* bytes) { return behave_nvrtcGetCUBINSize(program, bytes); }
FAKE(int, nvrtcGetPTX, void* program, char* image) { return behave_nvrtcGetCUBIN(program, image); }

FAKE(int, nvrtcGetProgramLogSize, void*, size_t* bytes) {
  *bytes = 1;
  return kSuccess;
}

FAKE(int, nvrtcGetProgramLog, void*, char* log) {
  *log = 0;
  return kSuccess;
}

FAKE(const char*, nvrtcGetErrorString, int error) {
  return error == kSuccess ? "NVRTC_SUCCESS" : "an error of the fake NVRTC";
}
