// The rows of the tables of counters: layers, phases, steps, threads …, and which row a piece of the run belongs to.
#pragma once

#include "analyzer/table/typed_columns.h"
#include "analyzer/tables/tables.h"
#include "analyzer/time/counter_division.h"

namespace dlhook::analyzer::inline tables {

class CounterRows {
 public:
  virtual ~CounterRows() = default;

  // The row for what no reading covers.
  static constexpr size_t kRest = static_cast<size_t>(-1);

  // Columns that identify a row: a result of RowOf, or kRest.
  virtual TypedColumns<size_t> Columns() const = 0;
  // Times at which pieces must be cut so that each belongs to one row; ascending.
  virtual std::vector<int64_t> Boundaries(ProcessIndex) const { return {}; }
  // The pieces of a process come thread by thread, then those of the process as a whole.
  virtual size_t RowOf(ProcessIndex process, const CountedPiece& piece) = 0;
  virtual bool AreInOrder() const { return false; }  // by time: not to be sorted by size
  virtual std::vector<std::string> Notes() const { return {}; }
};

// Numbers keys in the order in which they appear.
template <typename Key>
class Numbering {
 public:
  size_t Of(const Key& key) {
    const auto [at, is_new] = numbers_.emplace(key, keys_.size());
    if (is_new) keys_.push_back(key);
    return at->second;
  }
  const Key& At(size_t number) const { return keys_[number]; }

 private:
  std::map<Key, size_t> numbers_;
  std::vector<Key> keys_;
};

inline constexpr char kNotSampled[] = "[not sampled]";  // kRest, as shown to the user

std::unique_ptr<CounterRows> RowsByLayer(const TraceModel& model, const TableOptions& options);
std::unique_ptr<CounterRows> RowsByScope(const TraceModel& model);
std::unique_ptr<CounterRows> RowsByPhase(const TraceModel& model, const TableOptions& options);
std::unique_ptr<CounterRows> RowsByStep(const TraceModel& model, const TableOptions& options);
std::unique_ptr<CounterRows> RowsByInterval(const TraceModel& model, int64_t interval_ns);

// Sorts rows by their start; rows without one come last.
void SortByStart(Table* table);

// A round number of ms that gives a readable number of rows.
int64_t IntervalFor(int64_t wall_ns);

}  // namespace dlhook::analyzer::tables
