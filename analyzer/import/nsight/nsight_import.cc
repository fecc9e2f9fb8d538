// NVIDIA documents the schema ("SQLite Export Schema Reference"). Tables without events are missing, and columns vary with the version.
#include "analyzer/import/nsight/nsight_import.h"

#include <sqlite3.h>

#include "analyzer/import/kineto/kineto_import.h"
#include "analyzer/io/byte_source.h"
#include "analyzer/model/limits.h"

namespace dlhook::analyzer::inline nsight {
namespace {

using absl::string_view;

constexpr string_view kMagic("SQLite format 3\0", 16);
constexpr size_t kMostProcesses = 1 << 12;

// "globalTid" and "globalPid" hold both.
int64_t ProcessOf(int64_t global) { return global >> 24 & 0xffffff; }
int64_t ThreadOf(int64_t global) { return global & 0xffffff; }

class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  bool Has(int column) const { return sqlite3_column_type(statement_, column) != SQLITE_NULL; }
  int64_t Number(int column) const { return sqlite3_column_int64(statement_, column); }
  std::string Text(int column) const {
    const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    std::string copy;
    if (text != nullptr) Assign({text, static_cast<size_t>(sqlite3_column_bytes(statement_, column))}, &copy);
    return copy;
  }

 private:
  sqlite3_stmt* statement_;
};

class Database {
 public:
  // Nothing of a schema that others wrote is computed: https://sqlite.org/security.html.
  Database(const std::string& path, uint64_t bytes) : path_(path), rows_left_(bytes) {
    Check(sqlite3_open_v2(path.c_str(), &file_, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, nullptr));
    for (const int option :
         {SQLITE_DBCONFIG_TRUSTED_SCHEMA, SQLITE_DBCONFIG_ENABLE_VIEW, SQLITE_DBCONFIG_ENABLE_TRIGGER})
      sqlite3_db_config(file_, option, 0, nullptr);
    sqlite3_db_config(file_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    Query("PRAGMA cell_size_check = ON", [](const Row&) {});
  }
  ~Database() { sqlite3_close_v2(file_); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The rows of a table, with these columns; of those that it has not, NULL.
  template <typename Take>
  void ForEach(string_view table, string_view columns, Take take) {
    const std::set<std::string> known = ColumnsOf(table);
    if (known.empty()) return;
    std::vector<std::string> wanted = absl::StrSplit(columns, ' ');
    for (std::string& column : wanted) column = known.contains(column) ? absl::StrCat("\"", column, "\"") : "NULL";
    Query(absl::StrCat("SELECT ", absl::StrJoin(wanted, ", "), " FROM \"", table, "\""), take);
  }

  const absl::Status& status() const { return status_; }

 private:
  // Not of views and what modules compute.
  std::set<std::string> ColumnsOf(string_view table) {
    std::set<std::string> columns;
    Query(absl::StrCat("SELECT c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table' AND "
                       "t.rootpage > 0 AND t.name = '",
                       table, "'"),
          [&](const Row& row) { columns.insert(row.Text(0)); });
    return columns;
  }

  template <typename Take>
  void Query(const std::string& sql, Take take) {
    sqlite3_stmt* statement = nullptr;
    if (status_.ok()) Check(sqlite3_prepare_v2(file_, sql.c_str(), -1, &statement, nullptr));
    const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> owner(statement, sqlite3_finalize);
    int code = SQLITE_DONE;
    while (status_.ok() && (code = sqlite3_step(statement)) == SQLITE_ROW) {
      // Damaged pages may refer to each other in a circle.
      if (rows_left_-- == 0)
        status_ = absl::DataLossError(absl::StrCat(path_, ": has more rows than bytes"));
      else
        take(Row(statement));
    }
    if (code != SQLITE_ROW) Check(code);
  }

  void Check(int code) {
    if (code == SQLITE_OK || code == SQLITE_DONE || !status_.ok()) return;
    status_ = absl::DataLossError(absl::StrCat(path_, ": ", sqlite3_errmsg(file_)));
  }

  const std::string path_;
  uint64_t rows_left_;
  sqlite3* file_ = nullptr;
  absl::Status status_;
};

// "cudaLaunchKernel" of "cudaLaunchKernel_v7000"; "cuMemcpyHtoDAsync_v2" stays.
std::string WithoutVersion(const std::string& name) {
  const size_t at = name.rfind("_v");
  int version = 0;
  return at != name.npos && absl::SimpleAtoi(name.substr(at + 2), &version) && version >= 1000 ? name.substr(0, at)
                                                                                               : name;
}

// "Memcpy HtoD (Pinned -> Device)", as torch.profiler has it; numbers are CUPTI's and Nsight's.
std::string NameOfCopy(int64_t kind, int64_t from, int64_t to) {
  constexpr const char* kKinds[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD",
                                    "DtoA", "DtoD", "HtoH", "PtoP", "HtoD", "DtoH", "DtoD"};
  constexpr const char* kMemory[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device", "Managed"};
  const auto memory = [&](int64_t i) { return i >= 0 && i < std::ssize(kMemory) ? kMemory[i] : "Unknown"; };
  return absl::StrCat("Memcpy ", kind > 0 && kind < std::ssize(kKinds) ? kKinds[kind] : "", " (", memory(from), " -> ",
                      memory(to), ")");
}

// "[[4, 8], [8, 16], []]"
void ReadSizes(string_view text, Event* event) {
  for (absl::ConsumePrefix(&text, "["); absl::ConsumePrefix(&text, "["); absl::ConsumePrefix(&text, ", ")) {
    const size_t end = text.find(']');
    if (end == text.npos) return;
    Input& input = event->inputs.emplace_back();
    for (const string_view size : absl::StrSplit(text.substr(0, end), ", ", absl::SkipEmpty())) {
      if (!absl::SimpleAtoi(size, &input.dims.emplace_back())) return;
    }
    event->input_count = event->inputs.size();
    text.remove_prefix(end + 1);
  }
}

// A range of torch.autograd.profiler.emit_nvtx is an operator: "aten::mm, seq = 5, op_id = 7, sizes = [[4, 8], [8, 16]]".
void ReadRange(const std::string& text, Event* event) {
  const size_t end = std::min({text.find(", seq = "), text.find(", op_id = "), text.find(", sizes = ")});
  event->name = text.substr(0, end);
  const bool is_operator =
      end != text.npos || absl::StartsWith(text, "aten::") || absl::StartsWith(text, "autograd::engine::");
  event->category = is_operator ? Category::kOperator : Category::kAnnotation;
  if (end == text.npos) return;
  if (const size_t at = text.find(", seq = "); at != text.npos) {
    const string_view number = string_view(text).substr(at + 8);
    if (!absl::SimpleAtoi(number.substr(0, number.find(',')), &event->sequence)) event->sequence = -1;
  }
  if (const size_t at = text.find(", sizes = "); at != text.npos) ReadSizes(string_view(text).substr(at + 10), event);
}

class NsightReader {
 public:
  explicit NsightReader(Database& file) : file_(file) {}

  std::vector<ImportedTrace> Read() {
    file_.ForEach("StringIds", "id value", [&](const Row& row) { strings_[row.Number(0)] = row.Text(1); });
    ReadFacts();
    ReadCalls();
    ReadRanges();
    ReadKernels();
    ReadCopies();
    std::vector<ImportedTrace> traces;
    for (auto& [pid, events] : processes_) {
      TraceFacts facts = facts_;
      for (const auto& [ordinal, gpu] : gpus_of_process_[pid]) AddDevice(ordinal, gpu, &facts);
      for (auto gpu = gpus_.begin(); gpus_of_process_[pid].empty() && gpu != gpus_.end(); ++gpu)
        AddDevice(gpu->first, gpu->first, &facts);
      std::optional<ImportedTrace> trace = events.MakeTrace(facts, static_cast<uint32_t>(pid));
      if (trace) traces.push_back(*std::move(trace));
    }
    return traces;
  }

 private:
  std::string String(int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? "" : found->second;
  }

  void AddDevice(int64_t ordinal, int64_t gpu, TraceFacts* facts) const {
    const auto found = gpus_.find(gpu);
    if (found == gpus_.end()) return;
    facts->devices.push_back(found->second);
    facts->devices.back().ordinal = ordinal;
  }

  // An event of this process from `start` to `end`, which are the first two columns.
  Event NewEvent(Category category, const Row& row, int64_t global) {
    Event event;
    event.category = category;
    event.is_complete = event.has_time = row.Has(0) && row.Has(1);
    event.process = ProcessOf(global);
    event.thread = ThreadOf(global);
    event.start_ns = row.Number(0);
    if (__builtin_sub_overflow(row.Number(1), event.start_ns, &event.duration_ns)) event.duration_ns = -1;
    constexpr int64_t kMostNs = int64_t{1} << 61;
    event.has_time = event.has_time && event.start_ns > -kMostNs && event.start_ns < kMostNs;
    return event;
  }

  void Take(const Event& event) {
    if (processes_.size() > kMostProcesses) throw LimitError(absl::StrCat("more than ", kMostProcesses, " processes"));
    processes_[event.process].Take(event);
  }

  void TakeName(const char* what, int64_t global, const std::string& name) {
    Event event;
    event.name = what;
    event.process = ProcessOf(global);
    event.thread = ThreadOf(global);
    event.text = name;
    Take(event);
  }

  void ReadFacts() {
    facts_.tool = "Nsight Systems";
    file_.ForEach("TARGET_INFO_SESSION_START_TIME", "utcEpochNs", [&](const Row& row) {
      constexpr int64_t kMostBaseNs = 4'000'000'000'000'000'000;
      facts_.base_ns = std::clamp(row.Number(0), int64_t{0}, kMostBaseNs);
    });
    file_.ForEach("TARGET_INFO_SYSTEM_ENV", "name value", [&](const Row& row) {
      if (row.Text(0) == "Hostname") facts_.values["host_name"] = row.Text(1);
    });
    file_.ForEach("TARGET_INFO_GPU", "id name totalMemory smCount computeMajor computeMinor", [&](const Row& row) {
      gpus_[row.Number(0)] = {row.Number(0), row.Text(1), row.Number(2), row.Number(3), row.Number(4), row.Number(5)};
    });
    file_.ForEach("TARGET_INFO_CUDA_DEVICE", "pid cudaId gpuId",
                  [&](const Row& row) { gpus_of_process_[row.Number(0)][row.Number(1)] = row.Number(2); });
    file_.ForEach("PROCESSES", "globalPid name",
                  [&](const Row& row) { TakeName("process_name", row.Number(0), row.Text(1)); });
    file_.ForEach("ThreadNames", "globalTid nameId",
                  [&](const Row& row) { TakeName("thread_name", row.Number(0), String(row.Number(1))); });
  }

  void ReadCalls() {
    file_.ForEach("CUPTI_ACTIVITY_KIND_RUNTIME", "start end globalTid correlationId nameId", [&](const Row& row) {
      Event event = NewEvent(Category::kRuntime, row, row.Number(2));
      event.correlation = row.Number(3);
      event.name = WithoutVersion(String(row.Number(4)));
      Take(event);
    });
    file_.ForEach("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "start end globalPid correlationId streamId syncType",
                  [&](const Row& row) {
                    constexpr int64_t kStreamWaits = 2, kStream = 3;
                    if (row.Number(5) != kStreamWaits && row.Number(5) != kStream) return;
                    Event event = NewEvent(Category::kSync, row, row.Number(2));
                    event.correlation = row.Number(3);
                    event.stream = row.Number(4);
                    Take(event);
                  });
  }

  // Ranges of a thread that are inside each other. Those that may end on another thread are left out.
  void ReadRanges() {
    constexpr int64_t kPushPop = 59;
    file_.ForEach("NVTX_EVENTS", "start end globalTid eventType text textId", [&](const Row& row) {
      if (row.Number(3) != kPushPop) return;
      Event event = NewEvent(Category::kAnnotation, row, row.Number(2));
      ReadRange(row.Has(4) ? row.Text(4) : String(row.Number(5)), &event);
      Take(event);
    });
  }

  // Columns: start end globalPid correlationId deviceId contextId streamId …
  Event NewWork(Category category, const Row& row) {
    const bool has_process = row.Has(2) || processes_.empty();
    Event event = NewEvent(category, row, row.Number(2));
    if (!has_process) event.process = processes_.begin()->first;  // of old versions
    event.correlation = row.Number(3);
    event.device = row.Number(4);
    event.stream = row.Number(6);
    return event;
  }

  void ReadKernels() {
    file_.ForEach(
        "CUPTI_ACTIVITY_KIND_KERNEL",
        "start end globalPid correlationId deviceId contextId streamId demangledName shortName gridX gridY gridZ "
        "blockX blockY blockZ registersPerThread dynamicSharedMemory",
        [&](const Row& row) {
          Event event = NewWork(Category::kKernel, row);
          event.name = String(row.Number(row.Has(7) ? 7 : 8));
          event.grid = {row.Number(9), row.Number(10), row.Number(11)};
          event.block = {row.Number(12), row.Number(13), row.Number(14)};
          event.registers = row.Number(15);
          event.shared_bytes = row.Number(16);
          Take(event);
        });
    // --cuda-graph-trace=graph: a replay as a whole.
    file_.ForEach("CUPTI_ACTIVITY_KIND_GRAPH_TRACE",
                  "start end globalPid correlationId deviceId contextId streamId graphId", [&](const Row& row) {
                    Event event = NewWork(Category::kKernel, row);
                    event.name = absl::StrCat("CUDA graph ", row.Number(7));
                    Take(event);
                  });
  }

  void ReadCopies() {
    file_.ForEach("CUPTI_ACTIVITY_KIND_MEMCPY",
                  "start end globalPid correlationId deviceId contextId streamId bytes copyKind srcKind dstKind",
                  [&](const Row& row) {
                    Event event = NewWork(Category::kCopy, row);
                    event.bytes = row.Number(7);
                    event.name =
                        NameOfCopy(row.Number(8), row.Has(9) ? row.Number(9) : -1, row.Has(10) ? row.Number(10) : -1);
                    Take(event);
                  });
    file_.ForEach("CUPTI_ACTIVITY_KIND_MEMSET", "start end globalPid correlationId deviceId contextId streamId bytes",
                  [&](const Row& row) {
                    Event event = NewWork(Category::kSet, row);
                    event.bytes = row.Number(7);
                    event.name = "Memset";
                    Take(event);
                  });
  }

  Database& file_;
  absl::flat_hash_map<int64_t, std::string> strings_;
  TraceFacts facts_;
  std::map<int64_t, Device> gpus_;
  std::map<int64_t, std::map<int64_t, int64_t>> gpus_of_process_;  // by ordinal
  std::map<int64_t, ProcessEvents> processes_;
};

}  // namespace

bool IsNsightExport(const std::string& path) {
  if (absl::EndsWith(path, ".nsys-rep") || absl::EndsWith(path, ".qdrep")) return true;
  const absl::StatusOr<ByteSource> file = ByteSource::Open(path);
  std::string begin(kMagic.size(), '\0');
  return file.ok() && file->size() > begin.size() && file->Read(0, absl::MakeSpan(begin)).ok() && begin == kMagic;
}

absl::StatusOr<std::vector<ImportedTrace>> ImportNsight(const std::string& path) {
  const absl::StatusOr<ByteSource> bytes = ByteSource::Open(path);
  if (!bytes.ok()) return bytes.status();
  Database file(path, bytes->size());
  std::vector<ImportedTrace> traces = NsightReader(file).Read();
  if (traces.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.status().ok() ? absl::StrCat(path, ": no calls of CUDA, GPU work or ranges of NVTX")
                                        : file.status().message(),
                     "; expected the SQLite export of Nsight Systems (nsys export --type sqlite)"));
  }
  for (ImportedTrace& trace : traces) trace.damage = file.status();
  return traces;
}

}  // namespace dlhook::analyzer::nsight
