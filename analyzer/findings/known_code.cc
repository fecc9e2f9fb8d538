// What is known to be slow by its name: in the text of the program's lines, and in samples of its functions.

#include "analyzer/findings/rules.h"
#include "analyzer/work/source_lines.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kKnownPercent = 10;  // of the processor time
constexpr int kLeastOften = 3;        // that other code ran meanwhile
constexpr double kLeastLater = 0.1;   // of it in the later half of the run

// No operation or call tells of it.
struct KnownCode {
  absl::string_view code;
  const char* does;
  const char* advice;
  absl::string_view with = "", unless = "";  // in the same line
  absl::string_view function = "";           // of a package, that it runs; empty: its own name
};

constexpr char kKeepModel[] = "do it once, before the loop or the first request, and keep the result.";
constexpr char kLargerTasks[] =
    "give processes what is the same for all tasks once (an initializer, a global before they start), and many items "
    "at a time (chunksize=, batches); start one pool, before the loop.";
constexpr char kMoreRarely[] = "do it each so many steps, or in another thread.";
constexpr char kDecodeOnce[] = "do it beside the step (workers), or once (a cache of arrays).";
constexpr char kAskAhead[] = "ask for many at once, ahead, or keep what came.";
constexpr char kWholeColumns[] = "take whole columns at once (df[columns].to_numpy()), before the loop if they stay.";
constexpr char kJoinOnce[] = "collect the parts in a list, and join them once, after the loop.";
constexpr char kAllRows[] = "give the model all rows at once (a 2D array): what a call costs by itself comes once.";
constexpr KnownCode kKnownCode[] = {
    {".iterrows(", "goes through pandas rows one by one, each a new Series", kWholeColumns},
    {".itertuples(", "goes through pandas rows one by one", kWholeColumns},
    {".apply(", "calls a Python function for each row", "compute on whole columns (df[a] * df[b], np.where).",
     "axis=1"},
    {".iloc[", "looks up rows of a table one by one, if it is in a loop", kWholeColumns},
    {"np.append(", "copies the whole array each time", kJoinOnce, "", "", "append"},
    {"pd.concat(", "copies all rows each time, if it is in a loop", kJoinOnce, "", "", "concat"},
    {"np.random.choice(", "without replacement permutes all numbers for each call",
     "Generator.choice (np.random.default_rng()), which makes only those that it takes.", "replace=False"},
    {"np.random.choice(", "adds up all probabilities for a few numbers",
     "np.searchsorted(sums, rng.random(k)) with sums kept up to date (a tree of sums).", "p="},
    {"random.sample(", "finds each item of a deque by walking to it, if it takes from one",
     "keep the items in a list that is written round and round (buffer[i % n] = item)."},
    {"debug(f", "makes its text also where nothing prints it", "log.debug(\"%s\", x); and a mean, not a tensor."},
    {"** 3", "of arrays calls pow() for each element", "products (x * x * x)."},
    {"json.dump", "with indent= runs Python for each element, not the encoder in C",
     "leave out indent=, and hand over what .tolist() makes.", "indent="},
    {".toarray(", "stores and computes all zeros of a sparse matrix", "keep it sparse: most estimators take it."},
    {"[None]", "makes a batch of one row", kAllRows, ".run("},
    {"reshape(1, -1)", "makes a batch of one row", kAllRows, ".predict"},
    {"np.vectorize(", "calls a Python function for each element",
     "use operations of whole arrays (np.where, np.select).", "", "", "vectorize"},
    {"np.einsum(", "without optimize=True runs one loop over all indices, and no BLAS",
     "np.einsum(..., optimize=True), or products (a @ b) of two operands at a time.", "", "optimize=True"},
    {"linalg.inv(", "inverts a whole matrix",
     "np.linalg.solve(A, b); where A stays, factorize it once (scipy.linalg.cho_factor, lu_factor) and solve with "
     "that."},
    {"linalg.pinv(", "decomposes a whole matrix", "np.linalg.lstsq(A, b), or the product once, where A stays."},
    {"linalg.svd(", "without full_matrices=False makes whole square matrices of both sides",
     "full_matrices=False; compute_uv=False for the values alone; for the largest ones scipy.sparse.linalg.svds.", "",
     "full_matrices=False"},
    {"np.float16", "is a type for which NumPy has no BLAS, and most processors no instructions",
     "np.float32 for computing, float16 for storing only."},
    {"dtype=object", "makes arrays of Python's objects", "take a numeric type."},
    {"InferenceSession(", "makes a session of onnxruntime, which loads and optimizes the model", kKeepModel},
    {"load_model(", "loads a model", kKeepModel},
    {"from_pretrained(", "loads a model", kKeepModel},
    {"pickle.load", "loads what was pickled", kKeepModel},
    {"joblib.load(", "loads what was stored", kKeepModel},
    {"torch.load(", "loads what was stored", kKeepModel},
    {"Session(", "opens a session", kKeepModel},
    {".fit_transform(", "fits what it transforms with", "fit once, before the loop; .transform() for what comes."},
    {"DMatrix(", "makes a DMatrix, which copies the data",
     "booster.inplace_predict(rows) for predictions; one DMatrix, before the loop, for training."},
    {".predict", "is called for one row after the other", kAllRows, " for "},
    {"njit", "has numba compile a function, each time it is defined", "define it once, at the module's top level.", "",
     "", "_compile_for_args"},
    {"jit.trace(", "runs and compiles a model", kKeepModel},
    {"jit.script(", "compiles a model", kKeepModel},
    {"tf.function(", "makes a new function, which is traced again", "make it once, before the loop."},
    {"jax.jit(", "makes a new function, which is traced and compiled again", "make it once, before the loop."},
    {"gc.collect(", "looks at all of Python's objects for garbage", "leave it out, or do it each so many steps."},
    {"clear_session(", "throws away what Keras has built", "leave it out."},
    {"deepcopy(", "copies whole objects", "copy what changes only, and more rarely."},
    {"Parallel(", "hands out tasks to processes", kLargerTasks},
    {"Pool(", "starts processes", kLargerTasks},
    {"Process(", "starts processes", kLargerTasks},
    {".imap", "sends items to processes", kLargerTasks},
    {"pool.map(", "sends items to processes", kLargerTasks},
    {"pool.starmap(", "sends items to processes", kLargerTasks},
    {".submit(", "hands out tasks one by one", kLargerTasks},
    {"time.sleep(", "waits for a fixed time",
     "wait for the event itself instead of looking again and again (queue.get(), Event.wait(), select)."},
    {"requests.get(", "asks over the network", kAskAhead},
    {"requests.post(", "asks over the network", kAskAhead},
    {"urlopen(", "asks over the network", kAskAhead},
    {"Image.open(", "decodes images one by one", kDecodeOnce},
    {"imread(", "decodes images one by one", kDecodeOnce},
    {"json.loads(", "parses JSON", "take a binary form for arrays (np.frombuffer, msgpack, arrow)."},
    {"save_weights(", "writes all weights", kMoreRarely},
    {"np.save", "writes arrays", kMoreRarely},
    {"torch.save(", "writes all weights", kMoreRarely}};

bool IsOfName(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// In functions of multiprocessing's own.
constexpr KnownCode kMovesObjects = {"multiprocessing", "pickles and moves objects between processes", kLargerTasks};

// Not as the end of a longer name, DataParallel(, or the beginning of a longer number, ** 32.
bool IsIn(const KnownCode& known, absl::string_view line) {
  const auto is_longer = [&](size_t at) {
    const size_t end = at + known.code.size();
    return (at > 0 && IsOfName(known.code.front()) && IsOfName(line[at - 1])) ||
           (end < line.size() && isdigit(known.code.back()) && isdigit(line[end]));
  };
  size_t at = line.find(known.code);
  while (at != line.npos && is_longer(at)) at = line.find(known.code, at + 1);
  return at != line.npos && absl::StrContains(line, known.with) &&
         (known.unless.empty() || !absl::StrContains(line, known.unless));
}

// What samples met.
struct MetCode {
  int times = 0;
  double ns = 0, late_ns = 0;
  std::map<StackIndex, double> by_stack;
};

class KnownSamples {
 public:
  explicit KnownSamples(const StepFacts& facts) : facts_(facts), model_(facts.model()) {
    const SampleColumns& samples = model_.samples;
    std::map<ThreadIndex, std::vector<const KnownCode*>> last;
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto ns = static_cast<double>(samples.cpu_ns[i]);
      all_ns_ += ns;
      const std::vector<const KnownCode*>& now = KnownOf(samples.python_stack[i]);
      std::vector<const KnownCode*>& before = last[samples.thread[i]];
      for (const KnownCode* const known : now) {
        MetCode& met = met_[known];
        met.ns += ns;
        met.late_ns += 2 * samples.time_ns[i] > model_.start_ns + model_.end_ns ? ns : 0;
        met.times += absl::c_linear_search(before, known) ? 0 : 1;
        met.by_stack[samples.python_stack[i]] += ns;
      }
      before = now;
    }
  }

  std::vector<Finding> Findings() const {
    std::vector<Finding> findings;
    for (const auto& [known, met] : met_) {
      const double gain_ns = met.ns / all_ns_ * facts_.step_ns();  // as its part of that time
      const bool is_again = met.times >= kLeastOften || known == &kMovesObjects;
      if (!is_again || met.late_ns < kLeastLater * met.ns || !facts_.IsAtLeast(gain_ns, kKnownPercent)) continue;
      const std::string line = facts_.LineOfStack(MostOf(met.by_stack)->first);
      const std::string name(absl::StripSuffix(known->code, "("));
      findings.push_back(
          {.line = line,
           .sentence = absl::StrFormat("%s%s %s: again and again, %s of %s of processor time, by samples.", name,
                                       line.empty() ? "" : absl::StrCat(" (", line, ")"), known->does,
                                       HumanTime(met.ns), HumanTime(all_ns_)),
           .gain_ns = gain_ns,
           .evidence = "samples in this function, or at the line that has it; table hotspots",
           .advice = absl::StrCat(name, ": ", known->advice),
           .whole_ns = facts_.HasSteps() ? facts_.step_ns() : 0,
           .whole = "the processor time"});
    }
    return findings;
  }

 private:
  const std::vector<const KnownCode*>& KnownOf(StackIndex stack) {
    const auto [found, is_new] = known_of_.try_emplace(stack);
    if (is_new && stack != kNone) found->second = Known(stack);
    return found->second;
  }

  std::vector<const KnownCode*> Known(StackIndex stack) const {
    std::vector<absl::string_view> inside;  // functions of packages, called by the program's line
    bool is_own = true;                     // a forked process has its parent's frames around its own
    const std::vector<PythonFrame>& frames = model_.python_stacks[stack].frames;
    for (const PythonFrame& frame : frames) {
      if (!IsFrameworkFile(model_.names[frame.file])) break;
      for (const absl::string_view part : absl::StrSplit(model_.names[frame.function], '.')) inside.push_back(part);
      is_own = is_own && inside.back() != "_bootstrap";
    }
    std::vector<const KnownCode*> found;
    if (!frames.empty() && absl::StrContains(model_.names[frames.front().file], "/multiprocessing/"))
      found.push_back(&kMovesObjects);
    // Of this line alone: samples in functions that it calls have theirs.
    const std::vector<std::string> lines = facts_.Derived<SourceLines>().Of(facts_.LineOfStack(stack));
    for (const KnownCode& known : kKnownCode) {
      absl::string_view name = known.function.empty() ? known.code : known.function;
      absl::ConsumeSuffix(&name, "(");
      name.remove_prefix(name.rfind('.') + 1);
      const bool is_inside = absl::c_any_of(inside, [&](auto part) { return absl::StartsWith(part, name); });
      const bool is_private = is_inside && absl::StartsWith(name, "_");  // no other package's
      const bool may_run = inside.empty() || is_inside || !absl::c_all_of(name, IsOfName);
      if (is_private || (is_own && may_run && !lines.empty() && IsIn(known, lines.front()))) found.push_back(&known);
    }
    return found;
  }

  const StepFacts& facts_;
  const TraceModel& model_;
  std::map<StackIndex, std::vector<const KnownCode*>> known_of_;
  std::map<const KnownCode*, MetCode> met_;
  double all_ns_ = 0;
};

}  // namespace

std::vector<Finding> KnownInSamples(const StepFacts& facts) { return KnownSamples(facts).Findings(); }

SlowText SlowTextOf(const StepFacts& facts, const std::string& line_label, bool in_loop, bool in_function) {
  constexpr size_t kMostSaid = 2;
  const std::string code = facts.Derived<SourceLines>().CodeOf(line_label, in_loop, in_function);
  std::vector<std::string> names, advice;
  for (const absl::string_view line : absl::StrSplit(code, '\n')) {
    for (const KnownCode& known : kKnownCode) {
      const std::string name(absl::StripSuffix(known.code, "("));
      std::string said = absl::StrCat(name, ", which ", known.does,
                                      absl::EndsWith(line, SourceLines::kOpenBranch) ? ", if its branch runs" : "");
      if (!IsIn(known, line) || names.size() == kMostSaid || absl::c_linear_search(names, said)) continue;
      names.push_back(std::move(said));
      advice.push_back(absl::StrCat(name, ": ", known.advice));
    }
  }
  return {absl::StrJoin(names, "; and "), absl::StrJoin(advice, " ")};
}

}  // namespace dlhook::analyzer::findings
