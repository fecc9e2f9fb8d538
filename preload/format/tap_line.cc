// oneDNN log lines: 3.x "onednn_verbose,v1[,TIMESTAMP],primitive,exec,…,TIME", 2.x "onednn_verbose[,TIMESTAMP],exec,…,TIME",
// older "dnnl_verbose,exec,cpu,…,TIME" and "mkldnn_verbose,exec,…,TIME".
#include "preload/format/tap_line.h"

namespace dlhook::inline format {
namespace {

// Formats of releases without a template (before 2.1), distinguished by the number of fields.
constexpr const char* kKnownTemplates[] = {
    // since 1.1; 1.0; 0.x
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,attributes,auxiliary,problem_desc,exec_"
    "time",
    "operation,engine,primitive,implementation,prop_kind,memory_descriptors,auxiliary,problem_desc,exec_time",
    "operation,primitive,implementation,prop_kind,memory_descriptors,auxiliary,problem_desc,exec_time",
};

struct FieldName {
  const char* name;
  OneDnnField field;
};
constexpr FieldName kFieldNames[] = {
    {"operation", kOperation},           {"engine", kEngine},       {"primitive", kPrimitive},
    {"implementation", kImplementation}, {"prop_kind", kPropKind},  {"memory_descriptors", kMemoryDescriptors},
    {"attributes", kAttributes},         {"auxiliary", kAuxiliary}, {"problem_desc", kProblem},
};

bool Equals(TextSpan span, const char* text) {
  return span.size == strlen(text) && memcmp(span.data, text, span.size) == 0;
}

bool StartsWith(TextSpan span, const char* prefix) {
  return span.size >= strlen(prefix) && memcmp(span.data, prefix, strlen(prefix)) == 0;
}

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Removes the text up to the next comma from the front of `rest`.
TextSpan NextField(TextSpan* rest) {
  const void* comma = memchr(rest->data, ',', rest->size);
  size_t size = comma == nullptr ? rest->size : static_cast<const char*>(comma) - rest->data;
  TextSpan field = {rest->data, size};
  size_t skip = comma == nullptr ? size : size + 1;
  *rest = {rest->data + skip, rest->size - skip};
  return field;
}

bool IsTimestamp(TextSpan field) {
  return field.size > 0 && IsDigit(field.data[0]) && memchr(field.data, '.', field.size) != nullptr;
}

bool IsVersionMark(TextSpan field) { return field.size == 2 && field.data[0] == 'v' && IsDigit(field.data[1]); }

OneDnnField FieldOfName(TextSpan name) {
  for (const FieldName& known : kFieldNames) {
    if (Equals(name, known.name)) return known.field;
  }
  return kOther;
}

int CountFields(TextSpan text) {
  int count = 1;
  for (size_t i = 0; i < text.size; ++i) count += text.data[i] == ',';
  return count;
}

// Distributes `body` (operation to problem) over the fields; false if their number differs from the template's.
bool SplitByTemplate(TextSpan body, const char* template_fields, TapLine* line) {
  TextSpan names = {template_fields, strlen(template_fields)};
  if (StartsWith(names, "timestamp,")) NextField(&names);  // already removed
  TextSpan last_name = names;
  while (memchr(last_name.data, ',', last_name.size) != nullptr) NextField(&last_name);
  bool ends_with_time = Equals(last_name, "exec_time");
  if (CountFields(body) != CountFields(names) - (ends_with_time ? 1 : 0)) return false;
  TextSpan rest = body;
  for (int i = CountFields(body); i > 0; --i) {
    OneDnnField field = FieldOfName(NextField(&names));
    line->fields[field] = NextField(&rest);
  }
  return true;
}

// The same with the library's own template, or with whichever known one fits.
bool SplitBody(TextSpan body, const char* template_fields, TapLine* line) {
  if (template_fields[0] != '\0') return SplitByTemplate(body, template_fields, line);
  for (const char* known : kKnownTemplates) {
    if (SplitByTemplate(body, known, line)) return true;
  }
  return false;
}

}  // namespace

// Not strtod: the host may have set a locale with another decimal separator.
bool ParseMilliseconds(TextSpan text, uint64_t* nanoseconds) {
  size_t i = 0;
  double value = 0;
  int exponent = 0;
  bool digits = false;
  for (; i < text.size && IsDigit(text.data[i]); ++i, digits = true) value = value * 10 + (text.data[i] - '0');
  if (i < text.size && text.data[i] == '.') {
    for (++i; i < text.size && IsDigit(text.data[i]); ++i, digits = true, --exponent) {
      value = value * 10 + (text.data[i] - '0');
    }
  }
  if (digits && i + 1 < text.size && text.data[i] == 'e') {
    bool negative = text.data[i + 1] == '-';
    int written = 0;
    for (i += IsDigit(text.data[i + 1]) ? 1 : 2; i < text.size && IsDigit(text.data[i]) && written < 100; ++i) {
      written = written * 10 + (text.data[i] - '0');
    }
    exponent += negative ? -written : written;
  }
  if (!digits || i != text.size) return false;
  for (exponent += 6; exponent > 0 && value < 1e18; --exponent) value *= 10;
  for (; exponent < 0 && value > 0; ++exponent) value /= 10;
  *nanoseconds = value < 1e18 ? static_cast<uint64_t>(value + 0.5) : 0;
  return true;
}

TapLine ParseTapLine(const char* text, size_t size, const char* template_fields) {
  TapLine line = {};
  while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r')) --size;
  TextSpan rest = {text, size};
  NextField(&rest);  // the prefix
  TextSpan peek = rest;
  TextSpan field = NextField(&peek);
  if (IsTimestamp(field)) {
    rest = peek;
    field = NextField(&peek);
  }
  TextSpan component = {"primitive", 9};
  if (IsVersionMark(field)) {
    component = NextField(&peek);
    if (IsTimestamp(component)) component = NextField(&peek);
    rest = peek;
    field = NextField(&peek);
  }
  line.is_call = StartsWith(field, "exec") || StartsWith(field, "create");
  const char* last_comma = static_cast<const char*>(memrchr(rest.data, ',', rest.size));
  if (!line.is_call || last_comma == nullptr) {
    line.is_call = false;
    return line;
  }
  TextSpan body = {rest.data, static_cast<size_t>(last_comma - rest.data)};
  TextSpan time = {last_comma + 1, rest.size - body.size - 1};
  line.is_call = ParseMilliseconds(time, &line.duration_ns);
  line.identity = body;
  if (template_fields == nullptr) return line;
  bool is_primitive = Equals(component, "primitive");
  if (!is_primitive || !SplitBody(body, template_fields, &line)) {
    TextSpan remainder = body;
    for (TextSpan& f : line.fields) f = {nullptr, 0};
    line.fields[kOperation] = NextField(&remainder);
    line.fields[kPrimitive] = is_primitive ? TextSpan{nullptr, 0} : component;
    line.fields[kOther] = remainder;
  }
  return line;
}

}  // namespace dlhook::inline format
