// Rule input-wait: the step waits for its next batch.
//
// If the program loads data itself, all of the loading time counts; with worker processes, the time the program waits
// for them. Who was late is known from looks at those who prepare batches, while the program waits: they compute, have no
// processor, wait for files or the like, or wait for work themselves.
//
// Rows that are fetched one by one: an operation runs about as often as a batch has rows, or more often. More workers do the
// same beside the step, and copy what they made: with rows of some microseconds each the step got 1.5 to 2.3 times slower by
// that (torch 2.13). Fetching the batch at once made it 2 to 50 times faster.

#include "analyzer/findings/rules.h"
#include "analyzer/work/preparing.h"
#include "analyzer/work/source_lines.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kInputWaitPercent = 5;  // "moderate" in XProf's input pipeline analysis
constexpr int64_t kMostWorkers = 16;     // each is a process of its own
constexpr double kRowsOfBatch = 0.5;     // runs of an op, for each row
constexpr double kOncePerRow = 0.1;      // by so much of a batch more or less
constexpr double kLeastRows = 8;         // of a batch
constexpr double kFewestNumbers = 32;    // that a batch has for each row
constexpr double kMostOfInput = 0.5, kMuchOfInput = 0.2;
constexpr double kHandOverNs = 2e6;  // of a batch from a worker, at most: below that workers are no help
constexpr int64_t kLeastSamplesOfPlace = 10;
constexpr double kPartOfOwner = 0.25;   // of a line's samples: is named
constexpr double kCheapRowNs = 50'000;  // making it takes no longer than handing it over
constexpr char kWholeBatch[] =
    "Fetch a whole batch at once: index arrays or tensors with all its indices (a dataset with __getitems__, or "
    "DataLoader(dataset, sampler=BatchSampler(sampler, batch_size, False), batch_size=None)), and do once, before "
    "training, what each row needs.";

std::string LessWork(Preparer preparer) {
  return absl::StrCat(
      preparer == Preparer::kPipeline ? "Dataset.cache() behind what makes the same in each epoch, " : "",
      "cheaper transforms, or data decoded in advance.");
}

// How many workers would prepare batches as fast as the step can use them, and how long it would take then: not less than
// its own part, nor than the processors need for what the run computes meanwhile, which workers do not change.
struct Workers {
  double step_ns = 0;
  int count = 0;
  bool use_all_processors = false;
};

// `now`: workers there are, each of which needs all the time for its batch; 0: the program prepares them.
Workers WorkersFor(const StepFacts& facts, double waited_ns, int64_t now) {
  const double batch_ns = now > 0 ? static_cast<double>(now) * facts.step_ns() : waited_ns;
  const auto most = static_cast<double>(std::max(kMostWorkers, 2 * now));
  const double used = facts.processors() > 0 ? std::min(facts.RunningThreads() / facts.processors(), 1.0) : 0;
  const double own_ns = std::max({facts.step_ns() - waited_ns, batch_ns / most, 1.0});
  const double step_ns = std::max(own_ns, used * facts.step_ns());
  return {step_ns, static_cast<int>(std::ceil(batch_ns / step_ns)), step_ns > own_ns};
}

std::string HowTheyHelp(const StepFacts& facts, const Preparing& preparing, const Workers& workers) {
  if (workers.use_all_processors) return absl::StrFormat("; then all processors (%d) compute", facts.processors());
  const int64_t waits_ns = preparing.looks.blocked_ns - preparing.InLock();
  if (!preparing.IsKnown() || !preparing.Mostly(waits_ns)) return ", if processors are free";
  return absl::StrCat(", also without free processors: what prepares them mostly waits for something else",
                      2 * preparing.InOther() > waits_ns ? " (not if they take turns at it: a file's lock, say)" : "");
}

std::string MoreOf(Preparer preparer, int count) {
  if (preparer == Preparer::kPipeline)
    return absl::StrFormat("Dataset.map(..., num_parallel_calls=%d) and .prefetch(tf.data.AUTOTUNE) prepare", count);
  return absl::StrFormat("DataLoader(..., num_workers=%d, persistent_workers=True) prepares", count);
}

// A pipeline of tf.data calls functions in Python for its elements.
bool CallsPython(const StepFacts& facts, const Preparing& preparing) {
  if (preparing.IsPython()) return true;
  return absl::c_any_of(facts.counted().ops, [](const auto& op) {
    return op.second >= kLeastRows &&
           (absl::StartsWith(op.first, "PyFunc") || absl::StartsWith(op.first, "EagerPyFunc"));
  });
}

// What a batch can cost those who prepare it, at most: all the time in which the program does not wait for them (`waited_ns`
// of a step), and what they did in the rest.
double MostOfBatchNs(const StepFacts& facts, double waited_ns, const Preparing& preparing) {
  const LookSums& looks = preparing.looks;
  const auto worked = static_cast<double>(looks.running_ns + looks.queued_ns);
  const double part = worked / std::max(worked + static_cast<double>(looks.blocked_ns), 1.0);
  return static_cast<double>(preparing.threads) * (facts.step_ns() - waited_ns * (1 - part));
}

// Whether lines of the program name a lock, before this one or, if it is not known, the one where workers are longest.
bool NamesLock(const StepFacts& facts, const std::string& line) {
  if (line.empty()) return !WorkerLinesOf(facts).empty() && NamesLock(facts, WorkerLinesOf(facts).front().text);
  const auto& sources = facts.Derived<SourceLines>();
  const std::vector<std::string> lines = sources.Of(line, /*in_loop=*/true);
  return std::any_of(lines.begin(), lines.end(), [](const std::string& text) {
    return absl::StrContains(absl::StrReplaceAll(absl::AsciiStrToLower(text), {{"block", ""}, {"clock", ""}}), "lock");
  });
}

// For those who prepare batches at this line and had no work, no processor, or each other's lock; empty: none of these was
// mostly so.
std::string WhyNotMore(const StepFacts& facts, double waited_ns, const Preparing& preparing, const std::string& line) {
  const bool is_known = preparing.IsKnown();
  if (is_known && preparing.preparer == Preparer::kWorkers && preparing.Mostly(preparing.WithoutWork())) {
    const double batch_ns = MostOfBatchNs(facts, waited_ns, preparing);
    return absl::StrCat(batch_ns <= kHandOverNs
                            ? absl::StrCat("num_workers=0: a batch takes the workers at most ", HumanTime(batch_ns),
                                           ", hardly more than to hand it over. Else: ")
                            : "The workers wait for work: ",
                        "more batches ahead (prefetch_factor), fewer or smaller copies of a batch on its way "
                        "(collate_fn, pin_memory).");
  }
  if (is_known && preparing.Mostly(preparing.looks.queued_ns)) {
    return absl::StrCat(
        preparing.preparer == Preparer::kProgram   ? "The program waits for a processor meanwhile: workers would, too. "
        : preparing.preparer == Preparer::kWorkers ? "The workers wait for a processor: more of them do not help. "
                                                   : "They wait for a processor: more of them do not help. ",
        "Fewer other threads (OMP_NUM_THREADS), ", LessWork(preparing.preparer));
  }
  const bool is_blocked =
      is_known && preparing.Mostly(preparing.looks.blocked_ns - preparing.WithoutWork() - preparing.InLock());
  if (preparing.preparer == Preparer::kPipeline && CallsPython(facts, preparing) && !is_blocked) {
    return "The pipeline runs Python (tf.numpy_function, tf.py_function), of which mostly one at a time computes "
           "(Python's lock): TensorFlow's own operations, or data that was prepared before (Dataset.cache, a file).";
  }
  if (is_known && preparing.preparer == Preparer::kPipeline && preparing.Mostly(preparing.InLock())) {
    return "They wait for a lock, or for threads of TensorFlow's own that compute: more of them do not help. " +
           LessWork(preparing.preparer);
  }
  const bool by_workers = preparing.preparer == Preparer::kWorkers;
  const int64_t for_lock_ns = preparing.InLock() + (by_workers && NamesLock(facts, line) ? preparing.InOther() : 0);
  if (is_known && by_workers && preparing.Mostly(for_lock_ns)) {
    return absl::StrCat(preparing.Mostly(preparing.InLock()) ? "The workers wait for a lock"
                                                             : "The workers are blocked, and the program names a lock",
                        ": if it is one for all of them, more of them do not help. Hold it for less, not while an item "
                        "is read and prepared, or give each worker what it protects (a file, a connection, a copy).");
  }
  return "";
}

// What fetches rows one by one.
struct RowByRow {
  double times = 0;   // in a step
  double ns = 0;      // between operations there; of workers not known
  std::string place;  // "Rows.__getitem__ (train.py:17)"
  std::string line;
};

std::string PlaceText(const std::string& function, const std::string& line) {
  return function.empty() ? line : absl::StrCat(function, " (", line, ")");
}

// Of worker processes: those without steps. By operation and place, the most frequent one.
RowByRow MostFrequentOfWorkers(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::vector<bool> has_steps(model.processes.size());
  double steps = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (track.steps.empty() || track.steps.front().kind != facts.steps().kind) continue;
    has_steps[track.process] = true;
    steps += static_cast<double>(track.steps.size());
  }
  std::map<uint32_t, std::pair<double, ScopeIndex>> by_look;  // how often, and the last one
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    if (has_steps[model.threads[model.scopes.thread[scope]].process]) continue;
    if (!facts.IsOp(scope) || model.scopes.look[scope].stack == kNone) continue;
    auto& [times, last] = by_look[model.scopes.look.IndexAt(scope)];
    ++times;
    last = scope;
  }
  const auto most = MostOf(by_look, [](const auto& of) { return of.first; });
  if (most == by_look.end() || steps == 0) return {};
  const PythonPlace& place = facts.places()[model.scopes.look[most->second.second].stack];
  const std::string line = LineLabel(model, place);
  return {most->second.first / steps, 0, PlaceText(FunctionName(model, place.function), line), line};
}

std::optional<RowByRow> FetchedRowByRow(const StepFacts& facts, Preparer preparer) {
  RowByRow rows;
  if (preparer == Preparer::kWorkers) rows = MostFrequentOfWorkers(facts);
  if (preparer == Preparer::kProgram) {
    for (const GapLines& lines : InputLinesOf(facts)) {
      if (lines.count <= rows.times) continue;
      rows = {lines.count, lines.ns, PlaceText(lines.function, lines.text), lines.text};
    }
    double all_ns = 0;
    for (const GapLines& lines : InputLinesOf(facts)) all_ns += lines.ns;
    if (rows.ns < kMostOfInput * all_ns) return std::nullopt;  // something else takes the time
  }
  const double least = std::max(kLeastRows, kRowsOfBatch * static_cast<double>(facts.steps().batch));
  return rows.times >= least && !rows.place.empty() ? std::optional(rows) : std::nullopt;
}

// Tensors that default_collate makes of Python's numbers for a batch: of a list of them one for each position.
double CollatedNumbers(const StepFacts& facts) {
  const ScopeColumns& scopes = facts.model().scopes;
  const std::vector<bool> collates = facts.StacksWith([](const std::string& file, const std::string& function) {
    return absl::EndsWith(file, "/_utils/collate.py") &&
           (function == "collate_float_fn" || function == "collate_int_fn");
  });
  double tensors = 0;
  for (ScopeIndex scope = 0; scope < scopes.size(); ++scope) {
    const auto& [name, kind, stack] = scopes.look[scope];
    if (stack == kNone || !collates[stack] || facts.model().names[name] != "aten::lift_fresh") continue;
    tensors += facts.StepOfScope(scope) != kNone ? 1 / facts.count() : 0;
  }
  return tensors;
}

// An operation of a pipeline of tf.data that runs once for each row: one that reads or decodes it, else the most frequent one;
// empty: none.
struct PerRow {
  std::string op;
  bool is_read = false;
};
PerRow ComputedPerRow(const StepFacts& facts) {
  constexpr absl::string_view kReads[] = {"Decode", "ReadFile", "Parse"};
  const auto batch = static_cast<double>(facts.steps().batch);
  PerRow per_row;
  double most = 0;
  for (const auto& [name, times] : facts.counted().ops) {
    const size_t colon = name.find(':');
    if (colon == std::string::npos || name[colon + 1] == ':' || batch < kLeastRows) continue;
    if (std::abs(times - batch) > kOncePerRow * batch) continue;
    const std::string op = name.substr(colon + 1);
    if (absl::StrContains(op, "PyFunc")) return {};  // of one row, by nature
    const bool is_read = absl::c_any_of(kReads, [&](auto prefix) { return absl::StartsWith(op, prefix); });
    if (std::pair(is_read, times) <= std::pair(per_row.is_read, most)) continue;
    per_row = {op, is_read};
    most = times;
  }
  return per_row;
}

// What helps depends on who was late. `now`: workers or threads there are.
void Advise(const StepFacts& facts, double ns, const Preparing& preparing, int64_t now, const std::string& first,
            Finding& finding) {
  std::string instead;
  if (const std::optional<RowByRow> rows = FetchedRowByRow(facts, preparing.preparer)) {
    const double row_ns = ns * static_cast<double>(std::max<int64_t>(now, 1)) /
                          std::max(static_cast<double>(facts.steps().batch), kLeastRows);
    const ComparedSteps& steps = facts.steps();
    const bool knows_rows = steps.batch > 0 && !steps.batch_is_rows;
    absl::StrAppend(&finding.sentence, " Rows are fetched one by one",
                    knows_rows ? absl::StrCat(", ", steps.batch, " a ", facts.StepNoun(), ",") : "", " in ",
                    rows->place, ".");
    finding.advice = first.empty() ? kWholeBatch : first;
    finding.line = rows->line;
    if (const double tensors = CollatedNumbers(facts); tensors >= kFewestNumbers) {
      absl::StrAppendFormat(&finding.sentence,
                            " Its items hold lists of numbers: default_collate makes %.0f tensors for a batch, one of "
                            "each position.",
                            tensors);
      finding.advice =
          "Return one tensor or array for each item (torch.tensor(row), np.float32), made once, not a list.";
    }
    if (row_ns <= kCheapRowNs) return;
    if (!preparing.Mostly(preparing.looks.blocked_ns)) instead = absl::StrCat(finding.advice, " Else: ");
  }
  finding.advice = WhyNotMore(facts, ns, preparing, finding.line);
  if (!finding.advice.empty()) {
    finding.advice.insert(0, instead);
    return;
  }
  const Workers workers = WorkersFor(facts, ns, now);
  const double gain_ns = facts.step_ns() - workers.step_ns;
  if (workers.count <= now || !facts.IsAtLeast(gain_ns, kInputWaitPercent)) {
    finding.advice = instead;
    absl::StrAppendFormat(&finding.advice, "More %s do not help, as all processors (%d) compute: %s",
                          preparing.preparer == Preparer::kPipeline ? "calls at the same time" : "workers",
                          facts.processors(), LessWork(preparing.preparer));
    return;
  }
  if (instead.empty()) finding.gain_ns = std::min(gain_ns, ns);
  finding.advice = absl::StrCat(instead, MoreOf(preparing.preparer, workers.count), " batches during the step",
                                HowTheyHelp(facts, preparing, workers), ".");
}

// Of processes without steps, in a step: in their outermost operations.
double WorkersOperationsNs(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  std::vector<bool> has_steps(model.processes.size());
  for (const StepTrack& track : facts.options().analysis->steps()) has_steps[track.process] = true;
  double ns = 0;
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    if (model.scopes.parent[scope] == kNone && !has_steps[model.threads[model.scopes.thread[scope]].process])
      ns += static_cast<double>(model.scopes.duration_ns[scope]);
  }
  return ns / facts.count();
}

// Where samples met those who prepare batches.
struct Met {
  std::string line;
  std::string sentence;
};

// By line, whoever's code computed; where none has half of them, by library; else the most frequent line.
std::optional<Met> MostSampled(const StepFacts& facts, bool is_of_workers) {
  using Lines = std::map<std::pair<std::string, std::string>, int64_t>;  // samples by line and function
  struct Sum {
    int64_t samples = 0;
    std::map<std::string, int64_t> owners;
  };
  const auto& places = facts.Derived<SamplePlaces>();
  std::map<std::pair<std::string, std::string>, Sum> by_line;
  std::map<std::string, Lines> by_library;
  int64_t all = 0;
  for (const SampledLine& line : is_of_workers ? WorkerSampledLinesOf(facts) : SampledLinesOf(facts)) {
    if (!is_of_workers && line.kind != ActivityKind::kDataLoading) continue;
    const std::pair key(line.line, line.function);
    all += line.samples;
    by_line[key].samples += line.samples;
    by_line[key].owners[places.name(line.owner)] += line.samples;
    if (places.name(line.owner) != "Python") by_library[places.name(line.owner)][key] += line.samples;
  }
  if (all < kLeastSamplesOfPlace) return std::nullopt;
  const auto most = MostOf(by_line, &Sum::samples);
  const char* const whom = is_of_workers ? "them" : "it";
  for (const auto& [library, lines] : by_library) {
    int64_t samples = 0;
    for (const auto& [key, count] : lines) samples += count;
    if (2 * samples <= all || 2 * most->second.samples > all) continue;
    const auto& [line, function] = MostOf(lines)->first;
    return Met{line, absl::StrCat(" Most samples met ", whom, " in ", library, ", most of these called in ",
                                  PlaceText(function, line), ".")};
  }
  std::vector<std::string> owners;
  for (const auto& [owner, samples] : most->second.owners) {
    if (kPartOfOwner * static_cast<double>(most->second.samples) <= static_cast<double>(samples))
      owners.push_back(owner);
  }
  const auto& [line, function] = most->first;
  return Met{line, absl::StrCat(2 * most->second.samples > all
                                    ? std::string(" Most samples met ")
                                    : absl::StrFormat(" %d %% of the samples met ", 100 * most->second.samples / all),
                                whom, " in ", PlaceText(function, line), ", computing in ",
                                absl::StrJoin(owners, " and "), ".")};
}

// Where most of the time passes in which batches are prepared, if most does at one place; `ns`: what the program waits.
void SayWhere(const StepFacts& facts, double ns, bool by_workers, Finding& finding) {
  finding.is_in_loop = true;
  if (!finding.line.empty()) return;
  const std::vector<GapLines>& lines = by_workers ? WorkerLinesOf(facts) : InputLinesOf(facts);  // the longest first
  double all_ns = by_workers ? WorkersOperationsNs(facts) : ns;
  for (const GapLines& line : lines) all_ns += by_workers ? line.ns : 0;
  if (lines.empty() || lines.front().ns < kMuchOfInput * all_ns || lines.front().ns == 0) return;
  finding.line = lines.front().text;
  const double percent = 100 * std::min(lines.front().ns / all_ns, 1.0);
  absl::StrAppend(&finding.sentence,
                  percent < 100 * kMostOfInput
                      ? absl::StrFormat(" %.0f %%%s", percent, by_workers ? " of their time" : " of it")
                  : by_workers ? " Most of their time"
                               : " Most of it",
                  " passes at ", PlaceText(lines.front().function, lines.front().text), ".");
}

std::string WhoIsLate(Preparer preparer) {
  if (preparer == Preparer::kWorkers) return "The program waits for its loader's workers: ";
  return preparer == Preparer::kPipeline ? "The program waits for its pipeline of tf.data: "
                                         : "The program prepares each batch itself before it computes: ";
}

}  // namespace

void AdviseOnInput(const StepFacts& facts, double ns, Finding& finding) {
  const Preparer preparer = facts.counted().preparer();
  const Preparing preparing = WhoPrepares(facts.model(), *facts.options().analysis, facts.steps(), preparer);
  const bool is_seen = preparer == Preparer::kProgram || preparing.threads > 0;
  if (const std::string did = preparing.Text(); !did.empty()) {
    absl::StrAppend(&finding.sentence, " Meanwhile ", did, ".");
  } else if (!is_seen && !facts.model().states.empty()) {
    absl::StrAppend(&finding.sentence, " What the ", preparer == Preparer::kWorkers ? "workers" : "pipeline",
                    " did meanwhile was not observed.");
  }
  const bool by_workers = preparer == Preparer::kWorkers;
  const bool have_work = !by_workers || !preparing.IsKnown() || !preparing.Mostly(preparing.WithoutWork());
  const bool is_ours = preparer != Preparer::kPipeline && have_work;
  const std::optional<Met> met = is_ours ? MostSampled(facts, by_workers) : std::nullopt;
  const bool are_blocked = preparing.Mostly(preparing.looks.blocked_ns);
  const std::string first = met && !are_blocked
                                ? absl::StrCat("Look at ", met->line,
                                               " first: what it opens, reads, decodes or searches for each row, do "
                                               "once, before training, or for a whole batch.")
                                : "";
  if (is_seen || CallsPython(facts, preparing)) {
    Advise(facts, ns, preparing, preparer == Preparer::kProgram ? 0 : preparing.threads, first, finding);
  } else if (by_workers) {
    finding.advice = absl::StrCat("More workers (num_workers) where processors are free, else ", LessWork(preparer));
  } else {
    finding.advice = absl::StrCat(
        "Dataset.map(..., num_parallel_calls=tf.data.AUTOTUNE) and .prefetch(tf.data.AUTOTUNE) where processors are "
        "free, else ",
        LessWork(preparer));
  }
  if (const PerRow row = preparer == Preparer::kPipeline ? ComputedPerRow(facts) : PerRow(); !row.op.empty()) {
    absl::StrAppendFormat(&finding.sentence, " It %s: %s runs about %d times a %s.",
                          row.is_read ? "reads or decodes each row" : "computes each row on its own", row.op,
                          facts.steps().batch, facts.StepNoun());
    finding.advice.insert(0, row.is_read
                                 ? "If each epoch reads the same, Dataset.cache() behind that. Else: "
                                 : "Dataset.batch(n) before .map(f), where f computes on whole batches. Else: ");
  }
  if (!is_ours) return;
  if (!met) {
    if (facts.model().samples.empty() && !are_blocked) finding.advice += " dlhook run --sample names the line.";
    return SayWhere(facts, ns, by_workers, finding);
  }
  finding.is_in_loop = are_blocked && !finding.line.empty();
  if (!finding.is_in_loop) finding.line = met->line;
  finding.sentence += met->sentence;
  if (!absl::StartsWith(finding.advice, first)) finding.advice.insert(0, absl::StrCat(first, " Else: "));
}

double InputNs(const StepFacts& facts) {
  return std::max(facts.PhaseNs(PhaseKind::kInput),
                  facts.Sum([](const WorkItem& item) { return item.doing.activity == ActivityKind::kDataLoading; }));
}

// Of processes of a pool, which get items one by one from a parent that makes no recorded calls.
std::vector<Finding> FindPoolWait(const StepFacts& facts) {
  constexpr double kMostOfTime = 0.5;
  constexpr size_t kLeastRequests = 50;
  const TraceModel& model = facts.model();
  const std::vector<bool> is_of_pool = facts.StacksWith([](const std::string& file, const std::string&) {
    return absl::EndsWith(file, "/multiprocessing/pool.py") || absl::EndsWith(file, "/concurrent/futures/process.py") ||
           absl::EndsWith(file, "/loky/process_executor.py");
  });
  const auto last = std::find(is_of_pool.rbegin(), is_of_pool.rend(), true);  // the first one may be an import's
  if (last == is_of_pool.rend()) return {};
  double in_ns = 0, all_ns = 0;
  size_t processes = 0, requests = 0;
  for (const StepTrack& track : facts.options().analysis->steps()) {
    if (track.steps.empty()) continue;
    const uint32_t pid = model.processes[track.process].pid;
    if (absl::c_any_of(model.processes, [&](const ProcessInfo& child) { return child.parent_pid == pid; })) return {};
    ++processes;
    requests += track.steps.size();
    for (const Step& step : track.steps) in_ns += static_cast<double>(step.end_ns - step.start_ns);
    all_ns += static_cast<double>(track.steps.back().end_ns - track.steps.front().start_ns);
  }
  // Between two calls of a step a process may wait, too.
  double blocked_ns = 0;
  for (const GapLines& lines : GapLinesOf(facts)) blocked_ns += lines.blocked_ns.value_or(0);
  in_ns *= 1 - std::min(blocked_ns / facts.step_ns(), 1.0);
  const double between_ns = all_ns - in_ns, count = static_cast<double>(requests);
  if (requests < kLeastRequests || between_ns < kMostOfTime * all_ns) return {};
  return {{.where = "processes of a pool",
           .line = facts.LineOfStack(static_cast<StackIndex>(is_of_pool.rend() - last - 1)),
           .sentence = absl::StrFormat("Processes of a pool (%d) compute for %.0f %% of the time from their first "
                                       "request to their last: beside each request of %s, %s pass in which they wait "
                                       "for an item, unpickle it, send a result, or run other code of this function.",
                                       processes, 100 * in_ns / all_ns, HumanTime(in_ns / count),
                                       HumanTime(between_ns / count)),
           .gain_ns = between_ns / count,
           .evidence = "table steps: the time between the requests of each process",
           .advice =
               "Give the processes what is the same for all items once (Pool(initializer=...), a global before they "
               "start, shared memory), many items at a time (chunksize=, arrays of rows), and small results back; "
               "what takes less than sending it, compute in the program itself. dlhook run --sample tells whether the "
               "function itself takes the time.",
           .whole_ns = all_ns / count,
           .whole = "the time of these processes"}};
}

std::vector<Finding> FindInputWait(const StepFacts& facts) {
  if (!facts.HasSteps() || facts.HasGpuTimes()) return {};  // with a GPU only its idle time counts: gpu-idle
  if (std::vector<Finding> pool = FindPoolWait(facts); !pool.empty()) return pool;
  if (MakesPipelinesAnew(facts)) return {};
  const double ns = InputNs(facts);
  if (!facts.IsAtLeast(ns, kInputWaitPercent)) return {};
  const Preparer preparer = facts.counted().preparer();
  if (preparer == Preparer::kProgram && ns < kHandOverNs && !FetchedRowByRow(facts, preparer)) return {};
  const bool is_measured = preparer == Preparer::kWorkers;
  Finding finding = {.where = "input",
                     .sentence = absl::StrCat(WhoIsLate(preparer), facts.PartOfStep(ns), "."),
                     .gain_ns = ns,
                     .basis = is_measured ? GainBasis::kMeasured : GainBasis::kUpperBound,
                     .confidence = is_measured ? Confidence::kHigh : Confidence::kMedium,
                     .evidence = "table phases: input"};
  AdviseOnInput(facts, ns, finding);
  return {finding};
}

}  // namespace dlhook::analyzer::findings
