#include "preload/python/python_modules.h"

namespace dlhook::inline python {
namespace {

constexpr size_t kMaxNames = 8;          // per module
constexpr size_t kMaxRecordText = 3072;  // type and names

// An attribute, bypassing the class's own __getattr__; null if there is none.
Ref PlainAttribute(PyObject* object, const char* name) {
  const Ref key(g_python_api.InternString(name));
  return Ref(key ? g_python_api.GenericGetAttr(object, key.get()) : nullptr);
}

uint32_t AddText(ModuleTree* tree, const char* text, size_t bytes) {
  if (bytes > ModuleTree::kTextBytes - tree->text_used) return ModuleTree::kTextBytes;
  uint32_t offset = tree->text_used;
  memcpy(tree->text + offset, text, bytes);
  tree->text_used += static_cast<uint32_t>(bytes);
  return offset;
}

size_t TextOf(const Ref& string, char* text, size_t capacity) {
  return IsA(string.get(), g_python_api.text_type) ? PythonText(g_python, string.get(), text, capacity) : 0;
}

}  // namespace

size_t ModuleTypeName(PyObject* object, char* text, size_t capacity) {
  auto type = ReadAt<PyObject*>(object, kPyTypeOffset);
  size_t size = TextOf(Attribute(type, "__module__"), text, capacity - 1);
  if (size > 0) text[size++] = '.';
  return size + TextOf(Attribute(type, "__qualname__"), text + size, capacity - size);
}

namespace {

// A model has few types: most entries share one that was already read.
void SetTypeName(ModuleTree* tree, ModuleTree::Entry* entry) {
  const void* type = ReadAt<const void*>(entry->object, kPyTypeOffset);
  uint32_t first = tree->count > 64 ? tree->count - 64 : 0;
  for (uint32_t i = tree->count; i > first; --i) {
    const ModuleTree::Entry& other = tree->entries[i - 1];
    if (ReadAt<const void*>(other.object, kPyTypeOffset) != type) continue;
    entry->type_name = other.type_name;
    entry->type_name_bytes = other.type_name_bytes;
    return;
  }
  char text[512];
  size_t size = ModuleTypeName(entry->object, text, sizeof text);
  entry->type_name = AddText(tree, text, size);
  entry->type_name_bytes = entry->type_name == ModuleTree::kTextBytes ? 0 : static_cast<uint32_t>(size);
}

// False if there is no room.
bool AddEntry(ModuleTree* tree, PyObject* object, const char* name, size_t bytes) {
  uint32_t offset = tree->count < ModuleTree::kMaxEntries ? AddText(tree, name, bytes) : ModuleTree::kTextBytes;
  if (offset == ModuleTree::kTextBytes) return false;
  ModuleTree::Entry* entry = &tree->entries[tree->count];
  *entry = {object, offset, static_cast<uint32_t>(bytes), 0, 0, 0, 0};
  g_python_api.IncRef(object);
  SetTypeName(tree, entry);
  ++tree->count;
  return true;
}

struct Path {
  const PyObject* objects[ModuleTree::kMaxDepth];  // a module may contain itself
  uint32_t depth;
  char name[1024];
};

bool IsOnPath(const Path& path, const PyObject* object) {
  for (uint32_t i = 0; i < path.depth; ++i) {
    if (path.objects[i] == object) return true;
  }
  return false;
}

void ReadTorchModule(PyObject* module, size_t name_bytes, Path* path, ModuleTree* tree) {
  if (path->depth == ModuleTree::kMaxDepth || IsOnPath(*path, module)) return;
  if (!AddEntry(tree, module, path->name, name_bytes)) return;
  const Ref children = PlainAttribute(module, "_modules");
  const bool is_dict = IsA(children.get(), g_python_api.dict_type);
  path->objects[path->depth++] = module;
  size_t position = 0;
  PyObject *key, *child;
  while (is_dict && g_python_api.DictNext(children.get(), &position, &key, &child) != 0) {
    if (child == g_python_api.none || !IsA(key, g_python_api.text_type)) continue;
    size_t start = name_bytes;
    if (start > 0 && start < sizeof path->name) path->name[start++] = '.';
    size_t added = PythonText(g_python, key, path->name + start, sizeof path->name - start);
    ReadTorchModule(child, start + added, path, tree);
  }
  --path->depth;
}

// Layers know their own path once they are built; those that need no building (pooling) only have a name: their path is
// composed of their model's path and that name.
size_t KerasName(PyObject* layer, const ModuleTree::Entry* model, const ModuleTree& tree, char* text, size_t capacity) {
  size_t size = TextOf(PlainAttribute(layer, "_path"), text, capacity);
  if (size > 0) return size;
  if (model != nullptr && model->name_bytes + 1 < capacity) {
    memcpy(text, tree.text + model->name, model->name_bytes);
    size = model->name_bytes;
    if (size > 0) text[size++] = '/';
  }
  size_t added = TextOf(PlainAttribute(layer, "_name"), text + size, capacity - size);
  if (added == 0) added = TextOf(PlainAttribute(layer, "name"), text + size, capacity - size);
  return added > 0 ? size + added : 0;
}

void ReadKerasLayer(PyObject* layer, const ModuleTree::Entry* model, Path* path, ModuleTree* tree) {
  if (path->depth == ModuleTree::kMaxDepth || IsOnPath(*path, layer)) return;
  size_t bytes = KerasName(layer, model, *tree, path->name, sizeof path->name);
  if (!AddEntry(tree, layer, path->name, bytes)) return;
  const ModuleTree::Entry* entry = &tree->entries[tree->count - 1];
  const Ref children = PlainAttribute(layer, "_layers");
  path->objects[path->depth++] = layer;
  ptrdiff_t count = IsA(children.get(), g_python_api.list_type) ? g_python_api.ListSize(children.get()) : 0;
  for (ptrdiff_t i = 0; i < count; ++i) ReadKerasLayer(g_python_api.ListGetItem(children.get(), i), entry, path, tree);
  --path->depth;
}

void SetText(PythonProcess* process, const ModuleTree& tree, uint32_t first) {
  char text[kMaxRecordText];
  const ModuleTree::Entry& head = tree.entries[first];
  size_t size = head.type_name_bytes;
  memcpy(text, tree.text + head.type_name, size);
  text[size++] = '\0';
  size_t names = 0;
  for (uint32_t i = first + 1; i != 0 && names < kMaxNames; i = tree.entries[i - 1].next, ++names) {
    const ModuleTree::Entry& entry = tree.entries[i - 1];
    if (size + entry.name_bytes + 1 > sizeof text) break;
    memcpy(text + size, tree.text + entry.name, entry.name_bytes);
    size += entry.name_bytes;
    text[size++] = '\0';
  }
  SetObjectText(process, head.number, text, size);
}

}  // namespace

void ReadModuleTree(PyObject* root, bool keras, ModuleTree* tree, const char* name) {
  tree->count = 0;
  tree->text_used = 0;
  Path path;
  path.depth = 0;
  if (keras) {
    ReadKerasLayer(root, nullptr, &path, tree);
  } else {
    size_t bytes = strnlen(name, sizeof path.name);
    memcpy(path.name, name, bytes);
    ReadTorchModule(root, bytes, &path, tree);
  }
}

void NumberModuleTree(PythonProcess* process, ModuleTree* tree) {
  for (uint32_t i = 0; i < tree->count; ++i) {
    ModuleTree::Entry* entry = &tree->entries[i];
    entry->number = FindObject(*process, entry->object);
    if (entry->number == 0) entry->number = AddObject(process, entry->object);
  }
  for (uint32_t i = tree->count; i > 0; --i) {  // backwards, so that chains begin with the first name
    ModuleTree::Entry* entry = &tree->entries[i - 1];
    if (entry->number == 0) continue;
    entry->next = tree->first_of[entry->number];
    tree->first_of[entry->number] = i;
  }
}

bool IsNamed(const PythonProcess& process, const PythonObject& object) {
  const char* text = process.arena + object.text;
  auto type_end = static_cast<const char*>(memchr(text, '\0', object.text_bytes));
  return type_end != nullptr && type_end + 1 < text + object.text_bytes;
}

void SetTexts(PythonProcess* process, const ModuleTree& tree, uint32_t root, bool of_stray) {
  for (uint32_t i = 0; i < tree.count; ++i) {
    const ModuleTree::Entry& entry = tree.entries[i];
    if (entry.number == 0 || tree.first_of[entry.number] != i + 1) continue;
    const PythonObject& known = process->objects[entry.number];
    // A module has the names of the tree in which it was first seen. Keras calls each layer by itself while a model is
    // built, and a layer has one path.
    bool is_keras = (known.flags.load() & kObjectKeras) != 0;
    bool is_anothers = known.root != 0 && known.root != root && !is_keras;
    if (!is_anothers && !(of_stray && i > 0 && IsNamed(*process, known))) SetText(process, tree, i);
  }
}

void ReleaseModuleTree(ModuleTree* tree) {
  for (uint32_t i = 0; i < tree->count; ++i) {
    uint32_t number = tree->entries[i].number;
    tree->first_of[number] = 0;
    g_python_api.DecRef(tree->entries[i].object);
  }
  tree->count = 0;
}

}  // namespace dlhook::inline python
