// ParseInjectedCopy: see injection.h.

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "preload/gpu/injection.h"

namespace dlhook::inline gpu {
namespace {

// Words of the structure: destination; source, or the value of a memset; bytes, or elements of a memset; then, if
// present, the kind and the stream.
struct Form {
  const char* name;  // without Async, _v2, _ptds, _ptsz
  CopyDirection direction;
  uint8_t element_bytes;  // for memsets; 0: a copy
  bool has_kind = false;
};
constexpr Form kForms[] = {
    {"cudaMemcpy", CopyDirection::kUnknown, 0, true},
    {"cudaMemset", CopyDirection::kSet, 1},
    {"cuMemcpy", CopyDirection::kUnknown, 0},
    {"cuMemcpyHtoD", CopyDirection::kHostToDevice, 0},
    {"cuMemcpyDtoH", CopyDirection::kDeviceToHost, 0},
    {"cuMemcpyDtoD", CopyDirection::kDeviceToDevice, 0},
    {"cuMemsetD8", CopyDirection::kSet, 1},
    {"cuMemsetD16", CopyDirection::kSet, 2},
    {"cuMemsetD32", CopyDirection::kSet, 4},
};

bool TakeSuffix(std::string_view* name, std::string_view suffix) {
  bool has = name->ends_with(suffix);
  if (has) name->remove_suffix(suffix.size());
  return has;
}

}  // namespace

bool ParseInjectedCopy(const char* function, const void* parameters, CopyArgs* copy) {
  std::string_view name = function;
  for (const char* suffix : {"_ptds", "_ptsz", "_v2"}) TakeSuffix(&name, suffix);
  copy->asynchronous = TakeSuffix(&name, "Async");
  auto form = std::ranges::find(kForms, name, &Form::name);
  if (parameters == nullptr || form == std::end(kForms)) return false;
  auto words = static_cast<const uint64_t*>(parameters);
  auto pointers = static_cast<const void* const*>(parameters);
  copy->direction = form->direction;
  copy->dst = pointers[0];
  bool is_fill = form->element_bytes != 0;
  copy->src = is_fill ? nullptr : pointers[1];
  copy->bytes = is_fill ? words[2] * form->element_bytes : words[2];
  if (form->has_kind) copy->kind = static_cast<int32_t>(words[3]);
  if (copy->asynchronous) copy->stream = pointers[form->has_kind ? 4 : 3];
  return true;
}

}  // namespace dlhook::inline gpu
