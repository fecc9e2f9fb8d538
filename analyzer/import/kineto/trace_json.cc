// With RapidJSON's reader, which calls back for each value.
#include "analyzer/import/kineto/trace_json.h"

#include <rapidjson/error/en.h>
#include <rapidjson/reader.h>

#include "analyzer/import/kineto/unpacked_file.h"
#include "analyzer/model/limits.h"
#include "preload/format/character.h"

namespace dlhook::analyzer::inline kineto {
namespace {

using absl::string_view;

constexpr size_t kMostDepth = 64;
constexpr size_t kMostInputs = 64, kMostDims = 16, kMostDevices = 1024, kMostFacts = 1024;
constexpr uint64_t kMostTextBytes = 16 << 20;  // of one string
constexpr string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr double kMostUs = 4e15;  // the difference of two fits in 63 bits as nanoseconds
constexpr int64_t kMostBaseNs = 4'000'000'000'000'000'000;
constexpr char kExpected[] = "expected the JSON trace of torch.profiler (export_chrome_trace)";

// What RapidJSON reads from.
class Text {
 public:
  using Ch = char;
  explicit Text(UnpackedFile* file, const std::function<void(uint64_t)>& progress) : file_(file), progress_(progress) {
    Refill();
    if (!absl::StartsWith(string_view(at_, static_cast<size_t>(end_ - at_)), kByteOrderMark)) return;
    for (size_t i = 0; i < kByteOrderMark.size(); ++i) Take();  // as some editors write it
  }

  char Peek() const { return *at_; }
  char Take() {
    const char taken = *at_;
    if (at_ != end_ && ++at_ == end_) Refill();
    return taken;
  }
  size_t Tell() const { return before_ + static_cast<size_t>(at_ - begin_); }
  char* PutBegin() { return nullptr; }
  void Put(char) {}
  void Flush() {}
  size_t PutEnd(char*) { return 0; }
  void NoteValue() { last_value_ = Tell(); }
  bool at_end() const { return at_ == end_; }
  bool is_too_long() const { return is_too_long_; }

 private:
  void Refill() {
    before_ = Tell();
    is_too_long_ = before_ - last_value_ > kMostTextBytes;
    const string_view piece = is_too_long_ ? string_view() : file_->Next();
    begin_ = at_ = piece.empty() ? "" : piece.data();
    end_ = begin_ + piece.size();
    if (progress_) progress_(file_->bytes_read());
  }

  UnpackedFile* file_;
  const std::function<void(uint64_t)>& progress_;
  const char* begin_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  size_t before_ = 0;  // bytes of earlier pieces
  size_t last_value_ = 0;
  bool is_too_long_ = false;
};

int64_t Whole(string_view text) {
  int64_t number = 0;
  if (absl::SimpleAtoi(text, &number)) return number;
  double real = 0;  // "21504.0"
  return absl::SimpleAtod(text, &real) && std::fabs(real) < 9e18 ? static_cast<int64_t>(real) : 0;
}

// Microseconds, "1419247332972.313": exactly, which a double is not.
bool ReadUs(string_view text, int64_t* ns) {
  const bool is_negative = absl::StartsWith(text, "-");
  size_t i = is_negative ? 1 : 0;
  const size_t begin = i;
  int64_t whole = 0, part = 0;
  for (; i < text.size() && i < begin + 16 && absl::ascii_isdigit(text[i]); ++i) whole = whole * 10 + (text[i] - '0');
  const bool has_digits = i > begin;
  if (i < text.size() && text[i] == '.') {
    ++i;
    for (int64_t unit = 100; i < text.size() && absl::ascii_isdigit(text[i]); ++i, unit /= 10)
      part += (text[i] - '0') * unit;
  }
  double rough = static_cast<double>(whole);
  const bool is_exact = has_digits && i == text.size();
  if (!is_exact && !absl::SimpleAtod(text, &rough)) return false;  // "1e6"
  if (!(std::fabs(rough) < kMostUs)) return false;
  const int64_t exact = whole * 1000 + part;
  *ns = is_exact ? (is_negative ? -exact : exact) : std::llround(rough * 1000);
  return true;
}

Category CategoryOf(string_view name) {
  static const auto& kCategories = *new absl::flat_hash_map<string_view, Category>{
      {"cpu_op", Category::kOperator},
      {"user_annotation", Category::kAnnotation},
      {"python_function", Category::kPython},
      {"kernel", Category::kKernel},
      {"gpu_memcpy", Category::kCopy},
      {"gpu_memset", Category::kSet},
      {"cpu_instant_event", Category::kInstant},
      {"cuda_sync", Category::kSync},
      {"overhead", Category::kOverhead},
      {"Operator", Category::kOperator},
      {"Runtime", Category::kRuntime},  // PyTorch before 1.10
      {"Kernel", Category::kKernel},
      {"Memcpy", Category::kCopy},
      {"Memset", Category::kSet},
      {"Python", Category::kPython},
  };
  const auto found = kCategories.find(name);
  if (found != kCategories.end()) return found->second;
  const bool is_runtime = absl::EndsWith(name, "_runtime") || absl::EndsWith(name, "_driver");  // "cuda_", "xpu_" …
  return is_runtime ? Category::kRuntime : Category::kOther;
}

// Where an argument goes: into the event, or into each of its inputs.
struct Known {
  int64_t Event::*number = nullptr;
  std::string Event::*text = nullptr;
  std::vector<int64_t> Event::*list = nullptr;
  std::vector<int64_t> Input::*numbers_of_input = nullptr;
  std::string Input::*text_of_input = nullptr;
};

const Known* FindKnown(string_view name) {
  static const auto& kKnown = *new absl::flat_hash_map<string_view, Known>{
      {"Sequence number", {.number = &Event::sequence}},
      {"correlation", {.number = &Event::correlation}},
      {"device", {.number = &Event::device}},
      {"stream", {.number = &Event::stream}},
      {"wait_on_stream", {.number = &Event::event_stream}},
      {"bytes", {.number = &Event::bytes}},
      {"registers per thread", {.number = &Event::registers}},
      {"shared memory", {.number = &Event::shared_bytes}},
      {"Addr", {.number = &Event::address}},
      {"Bytes", {.number = &Event::memory_bytes}},
      {"Device Type", {.number = &Event::memory_type}},
      {"Device Id", {.number = &Event::memory_device}},
      {"Total Allocated", {.number = &Event::allocated}},
      {"Total Reserved", {.number = &Event::reserved}},
      {"grid", {.list = &Event::grid}},
      {"block", {.list = &Event::block}},
      {"Input Dims", {.numbers_of_input = &Input::dims}},
      {"Input dims", {.numbers_of_input = &Input::dims}},
      {"Input Strides", {.numbers_of_input = &Input::strides}},
      {"Input type", {.text_of_input = &Input::type}},
      {"Concrete Inputs", {.text_of_input = &Input::value}},
      {"Collective name", {.text = &Event::collective}},
      {"Process Group Name", {.text = &Event::group}},
      {"Process Group ID", {.text = &Event::group}},
      {"Process Group Ranks", {.text = &Event::group_ranks}},
      {"dtype", {.text = &Event::type}},
      {"Group size", {.number = &Event::group_size}},
      {"In msg nelems", {.number = &Event::sent}},
      {"Out msg nelems", {.number = &Event::received}},
      {"name", {.text = &Event::text}},
  };
  const auto found = kKnown.find(name);
  return found == kKnown.end() ? nullptr : &found->second;
}

class Handler : public rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Handler> {
 public:
  Handler(Text* text, const std::function<void(const Event&)>& take, TraceFacts* facts)
      : text_(text), take_(take), facts_(facts) {}

  bool Default() { return Value("", false); }  // null, true, false
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) { return Value({text, size}, false); }
  bool String(const char* text, rapidjson::SizeType size, bool) { return Value({text, size}, true); }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    text_->NoteValue();
    const string_view key(text, size);
    if (top() == Place::kArguments) {
      known_ = FindKnown(key);
    } else if (top() != Place::kOther) {
      Assign(key, &key_);
    }
    return true;
  }

  bool StartObject() {
    switch (top()) {
      case Place::kNothing:
        return Push(Place::kRoot);
      case Place::kEvents:
        BeginEvent();
        return Push(Place::kEvent);
      case Place::kEvent:
        known_ = nullptr;
        return Push(key_ == "args" ? Place::kArguments : Place::kOther);
      case Place::kRoot:
        return Push(key_ == "distributedInfo" ? Place::kJob : Place::kOther);
      case Place::kDevices:
        if (facts_->devices.size() < kMostDevices) facts_->devices.emplace_back();
        return Push(Place::kDevice);
      default:
        return Push(Place::kOther);
    }
  }

  bool EndObject(rapidjson::SizeType) {
    if (top() == Place::kEvent) take_(event_);
    places_.pop_back();
    return true;
  }

  bool StartArray() {
    switch (top()) {
      case Place::kNothing:  // Chrome's other form: events alone
        facts_->has_events = true;
        return Push(Place::kEvents);
      case Place::kRoot:
        facts_->has_events = facts_->has_events || key_ == "traceEvents";
        return Push(key_ == "traceEvents"        ? Place::kEvents
                    : key_ == "deviceProperties" ? Place::kDevices
                                                 : Place::kOther);
      case Place::kArguments:
        list_depth_ = 1;
        list_index_ = 0;
        return Push(known_ == nullptr ? Place::kOther : Place::kList);
      case Place::kList:
        ++list_depth_;
        if (list_depth_ == 3 && list_index_ < kMostInputs) ListInput()->is_list = true;
        if (list_depth_ == 2 && list_index_ < kMostInputs) ListInput();
        return Push(Place::kList);
      default:
        return Push(Place::kOther);
    }
  }

  bool EndArray(rapidjson::SizeType) {
    if (top() == Place::kList && --list_depth_ == 1) ++list_index_;
    places_.pop_back();
    return true;
  }

  const std::string& trouble() const { return trouble_; }

 private:
  enum class Place : uint8_t { kNothing, kRoot, kEvents, kEvent, kArguments, kList, kJob, kDevices, kDevice, kOther };

  Place top() const { return places_.empty() ? Place::kNothing : places_.back(); }

  bool Push(Place place) {
    text_->NoteValue();
    places_.push_back(place);
    if (places_.size() > kMostDepth) trouble_ = absl::StrCat("more than ", kMostDepth, " values inside each other");
    return trouble_.empty();
  }

  void BeginEvent() {
    Event fresh;
    fresh.name.swap(event_.name);
    fresh.inputs.swap(event_.inputs);
    for (size_t i = 0; i < event_.input_count; ++i) {
      Input& input = fresh.inputs[i];
      input.dims.clear();
      input.strides.clear();
      input.type.clear();
      input.value.clear();
      input.is_list = false;
    }
    fresh.name.clear();
    event_ = std::move(fresh);
  }

  Input* ListInput() {
    if (event_.inputs.size() <= list_index_) event_.inputs.resize(list_index_ + 1);
    event_.input_count = std::max(event_.input_count, list_index_ + 1);
    return &event_.inputs[list_index_];
  }

  bool Value(string_view value, bool is_text) {
    text_->NoteValue();
    switch (top()) {
      case Place::kRoot:
        if (key_ == "baseTimeNanoseconds") facts_->base_ns = std::clamp(Whole(value), -kMostBaseNs, kMostBaseNs);
        if (facts_->values.size() < kMostFacts) Assign(value, &facts_->values[key_]);
        break;
      case Place::kJob:
        if (facts_->job.size() < kMostFacts) Assign(value, &facts_->job[key_]);
        break;
      case Place::kDevice:
        DeviceValue(value, &facts_->devices.back());
        break;
      case Place::kEvent:
        EventValue(value, is_text);
        break;
      case Place::kArguments:
        if (known_ == nullptr) break;
        if (known_->number != nullptr) event_.*known_->number = Whole(value);
        if (known_->text != nullptr) Assign(value, &(event_.*known_->text));
        break;
      case Place::kList:
        ListValue(value);
        break;
      default:
        break;
    }
    return true;
  }

  void EventValue(string_view value, bool is_text) {
    if (key_ == "ph") event_.is_complete = value == "X";
    if (key_ == "cat") event_.category = CategoryOf(value);
    if (key_ == "name") Assign(value, &event_.name);
    if (key_ == "pid") event_.process = is_text ? -1 : Whole(value);
    if (key_ == "tid") event_.thread = is_text ? -1 : Whole(value);
    if (key_ == "ts") event_.has_time = ReadUs(value, &event_.start_ns);
    if (key_ == "dur" && !ReadUs(value, &event_.duration_ns)) event_.duration_ns = -1;
  }

  void ListValue(string_view value) {
    if (known_->list != nullptr) {
      std::vector<int64_t>& list = event_.*known_->list;
      if (list_depth_ == 1 && list.size() < 3) list.push_back(Whole(value));
      return;
    }
    if (list_index_ >= kMostInputs || (known_->numbers_of_input == nullptr && known_->text_of_input == nullptr)) return;
    Input* input = ListInput();
    if (list_depth_ == 1) {
      if (known_->text_of_input != nullptr) Assign(value, &(input->*known_->text_of_input));
      ++list_index_;
    } else if (list_depth_ == 2 && known_->numbers_of_input != nullptr) {
      std::vector<int64_t>& numbers = input->*known_->numbers_of_input;
      if (numbers.size() < kMostDims) numbers.push_back(Whole(value));
    }
  }

  void DeviceValue(string_view value, Device* device) {
    if (key_ == "id") device->ordinal = Whole(value);
    if (key_ == "name") Assign(value, &device->name);
    if (key_ == "totalGlobalMem") device->memory_bytes = Whole(value);
    if (key_ == "numSms") device->multiprocessors = Whole(value);
    if (key_ == "computeMajor") device->major = Whole(value);
    if (key_ == "computeMinor") device->minor = Whole(value);
  }

  Text* text_;
  const std::function<void(const Event&)>& take_;
  TraceFacts* facts_;
  std::vector<Place> places_;
  std::string key_;
  const Known* known_ = nullptr;  // of the argument
  size_t list_depth_ = 0, list_index_ = 0;
  Event event_;
  std::string trouble_;
};

}  // namespace

void Assign(string_view value, std::string* to) {
  to->assign(value.data(), std::min(value.size(), kMaxNameBytes));
  for (size_t i = 0; i < to->size();) {
    const Character character = FirstCharacter(to->data() + i, to->size() - i);
    if (!character.is_utf8) (*to)[i] = '?';
    i += character.bytes;
  }
}

const Input& Event::InputAt(size_t i) const {
  static const auto& kNone = *new Input;
  return i < input_count ? inputs[i] : kNone;
}

absl::Status ReadTraceJson(const std::string& path, const std::function<void(const Event&)>& take, TraceFacts* facts,
                           const std::function<void(uint64_t)>& progress) {
  const absl::StatusOr<std::unique_ptr<UnpackedFile>> opened = UnpackedFile::Open(path);
  if (!opened.ok()) return opened.status();
  UnpackedFile* const file = opened->get();
  Text text(file, progress);
  if (text.at_end() && file->status().ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the file is empty; ", kExpected));
  }
  Handler handler(&text, take, facts);
  rapidjson::Reader reader;
  constexpr unsigned kFlags = rapidjson::kParseNumbersAsStringsFlag | rapidjson::kParseNanAndInfFlag;
  const rapidjson::ParseResult result = reader.Parse<kFlags>(text, handler);
  std::string why;
  if (!file->status().ok()) {
    why = std::string(file->status().message());
  } else if (result.IsError()) {
    const std::string what = text.is_too_long() ? absl::StrCat("a text of more than ", kMostTextBytes, " bytes")
                             : !handler.trouble().empty() ? handler.trouble()
                             : text.at_end()
                                 ? "the JSON ends here, in the middle: the file is cut off"
                                 : std::string(absl::StripSuffix(rapidjson::GetParseError_En(result.Code()), "."));
    why = absl::StrCat(path, ": byte ", result.Offset(), " of its text: ", what);
  }
  if (!facts->has_events) {
    const std::string what = why.empty() ? absl::StrCat(path, ": this JSON has no list \"traceEvents\"") : why;
    return absl::InvalidArgumentError(absl::StrCat(what, "; ", kExpected));
  }
  return why.empty() ? absl::OkStatus() : absl::DataLossError(why);
}

bool LooksLikeJson(const std::string& path) {
  if (HasJsonName(path)) return true;
  const absl::StatusOr<std::unique_ptr<UnpackedFile>> file = UnpackedFile::Open(path);
  if (!file.ok()) return false;
  string_view text = (*file)->Next();
  absl::ConsumePrefix(&text, kByteOrderMark);
  text = absl::StripLeadingAsciiWhitespace(text);
  if (!absl::StartsWith(text, "{") && !absl::StartsWith(text, "[")) return false;
  text = absl::StripLeadingAsciiWhitespace(text.substr(1));  // a trace of dlhook's may begin with "\n{", then "B"
  return !text.empty() && absl::StrContains("\"{}]", text.front());
}

}  // namespace dlhook::analyzer::kineto
