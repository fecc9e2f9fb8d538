// Parsers of both formats. They never read out of bounds, whatever the bytes are.
#include "analyzer/symbols/jit_symbols.h"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"

namespace dlhook::analyzer::inline symbols {
namespace {

constexpr size_t kMaxNameBytes = 4096;

absl::string_view NextWord(absl::string_view* line) {
  const size_t end = std::min(line->find(' '), line->size());
  const absl::string_view word = line->substr(0, end);
  line->remove_prefix(std::min(end + 1, line->size()));
  return word;
}

bool ReadHex(absl::string_view word, uint64_t* number) {
  absl::ConsumePrefix(&word, "0x");
  return absl::SimpleHexAtoi(word, number);
}

std::optional<JitFunction> ReadPerfMapLine(absl::string_view line) {
  JitFunction function;
  if (!ReadHex(NextWord(&line), &function.start) || !ReadHex(NextWord(&line), &function.size)) return std::nullopt;
  if (line.empty() || function.size == 0 || function.start + function.size < function.start) return std::nullopt;
  function.name = std::string(line.substr(0, kMaxNameBytes));
  return function;
}

// Reads fixed-size values from the front of some bytes.
class Bytes {
 public:
  explicit Bytes(absl::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T Take() {
    T value = {};
    if (rest_.size() < sizeof value) {
      ok_ = false;
      rest_ = {};
      return value;
    }
    memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  // Up to the next NUL.
  absl::string_view TakeText() {
    const size_t end = rest_.find('\0');
    if (end == absl::string_view::npos) {
      ok_ = false;
      rest_ = {};
      return "";
    }
    const absl::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool ok() const { return ok_; }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

enum JitRecordKind : uint32_t { kLoad = 0, kMove = 1, kDebugInfo = 2 };
constexpr uint32_t kJitDumpMagic = 0x4a695444;  // "JiTD" in the writer's byte order

// Records are in order of time: lines of a function before its code, moves after it.
class JitDumpReader {
 public:
  explicit JitDumpReader(JitSymbols* symbols) : symbols_(symbols) {}

  void Take(uint32_t kind, absl::string_view body) {
    Bytes bytes(body);
    if (kind == kLoad) TakeLoad(&bytes);
    if (kind == kMove) TakeMove(&bytes);
    if (kind == kDebugInfo) TakeDebugInfo(&bytes);
  }

 private:
  void TakeLoad(Bytes* bytes) {
    bytes->Take<uint64_t>();  // pid, tid
    bytes->Take<uint64_t>();  // vma: equals code_addr unless code is moved before it runs
    JitFunction function;
    function.start = bytes->Take<uint64_t>();
    function.size = bytes->Take<uint64_t>();
    const uint64_t index = bytes->Take<uint64_t>();
    function.name = std::string(bytes->TakeText().substr(0, kMaxNameBytes));
    if (!bytes->ok() || function.size == 0 || function.start + function.size < function.start) return;
    if (lines_of_ == function.start) function.lines = std::move(lines_);
    lines_.clear();
    by_index_[index] = function;
    symbols_->Add(std::move(function));
  }

  void TakeMove(Bytes* bytes) {
    bytes->Take<uint64_t>();  // pid, tid
    bytes->Take<uint64_t>();  // vma
    const uint64_t from = bytes->Take<uint64_t>();
    const uint64_t to = bytes->Take<uint64_t>();
    const uint64_t size = bytes->Take<uint64_t>();
    const auto place = by_index_.find(bytes->Take<uint64_t>());
    if (!bytes->ok() || place == by_index_.end() || to + size < to || size == 0) return;
    JitFunction& function = place->second;
    function.start = to;
    function.size = size;
    for (JitLine& line : function.lines) line.address += to - from;
    symbols_->Add(function);
  }

  void TakeDebugInfo(Bytes* bytes) {
    lines_.clear();
    lines_of_ = bytes->Take<uint64_t>();
    const uint64_t count = bytes->Take<uint64_t>();
    std::string file;
    for (uint64_t i = 0; i < count && bytes->ok(); ++i) {
      JitLine line;
      line.address = bytes->Take<uint64_t>();
      line.line = bytes->Take<uint32_t>();
      bytes->Take<uint32_t>();  // discriminator
      const absl::string_view name = bytes->TakeText();
      if (!bytes->ok()) return;
      if (name != "\xff") file = std::string(name.substr(0, kMaxNameBytes));  // "\xff": the same as before
      line.file = file;
      lines_.push_back(std::move(line));
    }
  }

  JitSymbols* symbols_;
  absl::btree_map<uint64_t, JitFunction> by_index_;
  uint64_t lines_of_ = 0;  // code address
  std::vector<JitLine> lines_;
};

}  // namespace

void JitSymbols::Add(JitFunction function) {
  std::sort(function.lines.begin(), function.lines.end(),
            [](const JitLine& left, const JitLine& right) { return left.address < right.address; });
  functions_.push_back(std::move(function));
}

// From the last recorded function to the first: each keeps only what no later one covers.
void JitSymbols::Finish() {
  absl::btree_map<uint64_t, JitFunction> kept;
  for (auto function = functions_.rbegin(); function != functions_.rend(); ++function) {
    auto next = kept.lower_bound(function->start);
    const bool hits_next = next != kept.end() && next->first < function->start + function->size;
    bool hits_previous = false;
    if (next != kept.begin()) {
      const JitFunction& previous = std::prev(next)->second;
      hits_previous = previous.start + previous.size > function->start;
    }
    if (hits_next || hits_previous) {
      ++replaced_;
    } else {
      const uint64_t start = function->start;
      kept.emplace(start, std::move(*function));
    }
  }
  functions_.clear();
  for (auto& [start, function] : kept) functions_.push_back(std::move(function));
}

const JitFunction* JitSymbols::Find(uint64_t address) const {
  auto place = std::upper_bound(functions_.begin(), functions_.end(), address,
                                [](uint64_t at, const JitFunction& function) { return at < function.start; });
  if (place == functions_.begin()) return nullptr;
  --place;
  return address - place->start < place->size ? &*place : nullptr;
}

size_t ReadPerfMap(absl::string_view text, JitSymbols* symbols) {
  size_t functions = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (std::optional<JitFunction> function = ReadPerfMapLine(text.substr(0, end))) {
      symbols->Add(*std::move(function));
      ++functions;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return functions;
}

bool ReadJitDump(absl::string_view bytes, uint32_t pid, JitSymbols* symbols) {
  constexpr uint32_t kRecordHeaderBytes = 16;
  Bytes header(bytes);
  const uint32_t magic = header.Take<uint32_t>();
  header.Take<uint32_t>();  // version
  const uint32_t header_bytes = header.Take<uint32_t>();
  const uint32_t machine = header.Take<uint32_t>();
  header.Take<uint32_t>();
  const uint32_t writer = header.Take<uint32_t>();
  const bool is_ours = machine == EM_X86_64 || machine == EM_NONE;  // CPython 3.13 sets none
  if (!header.ok() || magic != kJitDumpMagic || !is_ours || writer != pid || header_bytes > bytes.size()) return false;
  bytes.remove_prefix(header_bytes);
  JitDumpReader reader(symbols);
  while (bytes.size() >= kRecordHeaderBytes) {
    Bytes record(bytes);
    const uint32_t kind = record.Take<uint32_t>();
    const uint32_t size = record.Take<uint32_t>();
    if (size < kRecordHeaderBytes || size > bytes.size()) break;
    reader.Take(kind, bytes.substr(kRecordHeaderBytes, size - kRecordHeaderBytes));
    bytes.remove_prefix(size);
  }
  return true;
}

}  // namespace dlhook::analyzer::symbols
