// libcudnn, graph API: contents of descriptors (backend_contents.h).
#include "backend_contents.h"

namespace backend {

size_t ElementBytes(int type) {
  switch (type) {
    case 2:
    case kChar:
      return 1;
    case kInt64:
    case 5:
    case kPointer:
    case kDescriptor:
    case 0:
      return 8;
    case 26:
      return 16;  // fraction
    default:
      return 4;
  }
}

void PutBytes(Contents* contents, int name, int type, int64_t count, const void* data) {
  Value value;
  value.type = type;
  value.count = count;
  value.bytes.assign(static_cast<const char*>(data), static_cast<size_t>(count) * ElementBytes(type));
  contents->values[name] = value;
}

void PutInt64(Contents* contents, int name, int64_t number) { PutBytes(contents, name, kInt64, 1, &number); }

void PutChildren(Contents* contents, int name, const std::vector<Shared>& children) {
  Value value;
  value.type = kDescriptor;
  value.count = static_cast<int64_t>(children.size());
  value.children = children;
  contents->values[name] = value;
}

const Value* Find(const Shared& contents, int name) {
  if (contents == nullptr) return nullptr;
  const auto entry = contents->values.find(name);
  return entry != contents->values.end() ? &entry->second : nullptr;
}

Shared Child(const Shared& contents, int name) {
  const Value* value = Find(contents, name);
  return value != nullptr && !value->children.empty() ? value->children[0] : nullptr;
}

int64_t Number(const Shared& contents, int name, int64_t otherwise) {
  const Value* value = Find(contents, name);
  if (value == nullptr || value->bytes.size() < 4) return otherwise;
  if (value->bytes.size() >= 8) return *reinterpret_cast<const int64_t*>(value->bytes.data());
  return *reinterpret_cast<const int32_t*>(value->bytes.data());
}

std::vector<int64_t> Numbers(const Shared& contents, int name) {
  const Value* value = Find(contents, name);
  std::vector<int64_t> numbers(value != nullptr ? value->bytes.size() / 8 : 0);
  if (!numbers.empty()) memcpy(numbers.data(), value->bytes.data(), numbers.size() * 8);
  return numbers;
}

int64_t Product(const std::vector<int64_t>& numbers, size_t from) {
  int64_t product = 1;
  for (size_t i = from; i < numbers.size(); ++i) product *= numbers[i];
  return product;
}

}  // namespace backend
