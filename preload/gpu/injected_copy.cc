// ParseInjectedCopy: see injection.h.

#include <initializer_list>

#include "preload/gpu/injection.h"

namespace dlhook::inline gpu {
namespace {

// Words of the structure: destination; source, or the value of a memset; bytes, or elements of a memset; then, if
// present, the kind and the stream.
struct Form {
  const char* name;  // without _v2, _ptds, _ptsz
  CopyDirection direction;
  uint8_t element_bytes;  // for memsets; 0: a copy
  bool has_kind;
  bool asynchronous;
};
constexpr Form kForms[] = {
    {"cudaMemcpy", CopyDirection::kUnknown, 0, true, false},
    {"cudaMemcpyAsync", CopyDirection::kUnknown, 0, true, true},
    {"cudaMemset", CopyDirection::kSet, 1, false, false},
    {"cudaMemsetAsync", CopyDirection::kSet, 1, false, true},
    {"cuMemcpy", CopyDirection::kUnknown, 0, false, false},
    {"cuMemcpyAsync", CopyDirection::kUnknown, 0, false, true},
    {"cuMemcpyHtoD", CopyDirection::kHostToDevice, 0, false, false},
    {"cuMemcpyHtoDAsync", CopyDirection::kHostToDevice, 0, false, true},
    {"cuMemcpyDtoH", CopyDirection::kDeviceToHost, 0, false, false},
    {"cuMemcpyDtoHAsync", CopyDirection::kDeviceToHost, 0, false, true},
    {"cuMemcpyDtoD", CopyDirection::kDeviceToDevice, 0, false, false},
    {"cuMemcpyDtoDAsync", CopyDirection::kDeviceToDevice, 0, false, true},
    {"cuMemsetD8", CopyDirection::kSet, 1, false, false},
    {"cuMemsetD8Async", CopyDirection::kSet, 1, false, true},
    {"cuMemsetD16", CopyDirection::kSet, 2, false, false},
    {"cuMemsetD16Async", CopyDirection::kSet, 2, false, true},
    {"cuMemsetD32", CopyDirection::kSet, 4, false, false},
    {"cuMemsetD32Async", CopyDirection::kSet, 4, false, true},
};

size_t WithoutSuffix(const char* name, size_t length, const char* suffix) {
  size_t bytes = strlen(suffix);
  bool has = length > bytes && memcmp(name + length - bytes, suffix, bytes) == 0;
  return has ? length - bytes : length;
}

const Form* FormOf(const char* function) {
  size_t length = strlen(function);
  for (const char* suffix : {"_ptds", "_ptsz", "_v2"}) length = WithoutSuffix(function, length, suffix);
  for (const Form& form : kForms) {
    if (strlen(form.name) == length && memcmp(form.name, function, length) == 0) return &form;
  }
  return nullptr;
}

}  // namespace

bool ParseInjectedCopy(const char* function, const void* parameters, CopyArgs* copy) {
  const Form* form = parameters == nullptr ? nullptr : FormOf(function);
  if (form == nullptr) return false;
  auto words = static_cast<const uint64_t*>(parameters);
  auto pointers = static_cast<const void* const*>(parameters);
  copy->direction = form->direction;
  copy->asynchronous = form->asynchronous;
  copy->dst = pointers[0];
  bool is_fill = form->element_bytes != 0;
  copy->src = is_fill ? nullptr : pointers[1];
  copy->bytes = is_fill ? words[2] * form->element_bytes : words[2];
  if (form->has_kind) copy->kind = static_cast<int32_t>(words[3]);
  if (form->asynchronous) copy->stream = pointers[form->has_kind ? 4 : 3];
  return true;
}

}  // namespace dlhook::inline gpu
