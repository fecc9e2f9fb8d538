// Rule slow-lines: between two of its lines the program does something for long that is no operation of a framework and no
// call of a hooked library: Python, or native code that Python calls (a list made into a tensor, NumPy, pandas, JSON, a file).
//
// Only stretches that are long by themselves (gap_lines.h): many short ones are python-bound's. Stretches in one function of the program
// are told together, by their longest one's lines. Where looks from outside found the thread blocked, that is said; where
// samples met a function most, it is named; where most of it passes from the first tensor that is released to the last, that.

#include "analyzer/findings/rules.h"
#include "analyzer/model/release.h"
#include "analyzer/model/scope_role.h"
#include "analyzer/work/source_lines.h"

namespace dlhook::analyzer::inline findings {
namespace {

constexpr double kSlowLinesPercent = 10;
constexpr int64_t kLeastSamplesOfStretch = 8;
constexpr double kStartsEachStep = 0.5;  // processes that begin
constexpr double kWaitForChildPercent = 5;
constexpr int64_t kSmallBatch = 16;
constexpr double kMostlyReleases = 0.5;                        // of a stretch
constexpr double kWorksMeanwhile = 0.7, kIdleMeanwhile = 0.1;  // of the time in which the main thread is blocked

// What is known to be slow by its name in the program's text. No operation or call tells of it.
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
constexpr KnownCode kKnownCode[] = {
    {".iterrows(", "goes through pandas rows one by one, each a new Series", kWholeColumns},
    {".itertuples(", "goes through pandas rows one by one", kWholeColumns},
    {".apply(", "calls a Python function for each row", "compute on whole columns (df[a] * df[b], np.where).",
     "axis=1"},
    {".iloc[", "looks up rows of a table one by one, if it is in a loop", kWholeColumns},
    {"np.append(", "copies the whole array each time", "collect the parts in a list, and np.concatenate them once.", "",
     "", "append"},
    {"np.random.choice(", "permutes all candidates for a few numbers",
     "np.random.default_rng().choice(n, k, replace=False), made once, does not.", "replace=False"},
    {"np.random.choice(", "adds up all probabilities for a few numbers",
     "np.searchsorted(sums, rng.random(k)) with sums kept up to date (a tree of sums).", "p="},
    {"random.sample(", "finds each item of a deque by walking to it, if it takes from one",
     "keep the items in a list that is written round and round (buffer[i % n] = item)."},
    {"pd.concat(", "copies all rows each time, if it adds some to a table",
     "collect the rows in a list (dicts), and make one DataFrame of them at the end."},
    {"debug(f", "makes its text also where nothing prints it", "log.debug(\"%s\", x); and a mean, not a tensor."},
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
    {".predict", "is called for one row after the other", "give it all rows at once (a 2D array).", " for "},
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

// Not as the end of a longer name: DataParallel(.
bool IsIn(const KnownCode& known, absl::string_view line) {
  const auto is_of_name = [](char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  size_t at = line.find(known.code);
  while (at != line.npos && at > 0 && is_of_name(known.code.front()) && is_of_name(line[at - 1]))
    at = line.find(known.code, at + 1);
  return at != line.npos && absl::StrContains(line, known.with) &&
         (known.unless.empty() || !absl::StrContains(line, known.unless));
}

struct Stretches {
  const GapLines* longest = nullptr;
  double ns = 0, count = 0, blocked_ns = 0;
};

// torch.tensor(list): a tensor is filled with Python's objects.
bool MakesTensor(const GapLines& lines) {
  const bool is_one_line = !absl::StrContains(lines.text, " to ");
  return is_one_line && lines.before == "aten::empty" && RoleOfName(lines.after) == ScopeRole::kConversion;
}

bool HasSamples(const GapLines& lines) { return lines.sampled && lines.sampled->samples >= kLeastSamplesOfStretch; }

// "make_batch (train.py:13)"
std::string WhoRuns(const GapLines& lines) {
  const bool has_samples = HasSamples(lines);
  const std::string& function = has_samples ? lines.sampled->function : lines.function;
  if (!lines.callback.empty())
    return absl::StrCat("The callback ", lines.callback, ", of ", lines.package, " at ", lines.text, ",");
  if (!lines.package.empty()) return absl::StrCat(lines.package, ", called at ", lines.text, ",");
  return absl::StrCat(function.empty() ? "The main code" : function, " (",
                      has_samples ? lines.sampled->line : lines.text, ")");
}

std::string WhatSamplesMet(const StepFacts& facts, const GapLines& lines) {
  if (!HasSamples(lines)) return "";
  const auto& places = facts.Derived<SamplePlaces>();
  const auto percent = static_cast<int>(100 * lines.sampled->samples / std::max<int64_t>(lines.samples, 1));
  return absl::StrCat(" Of the samples there ", percent, " % met it, mostly in ", places.name(lines.sampled->owner),
                      ".");
}

// "It waits for processes that it starts: …"; empty: it does not, or that is not known.
std::string StartedProcesses(const StepFacts& facts) {
  const TraceModel& model = facts.model();
  double started = 0, waited_ns = 0;
  for (const ProcessInfo& child : model.processes) {
    for (ProcessIndex process = 0; process < model.processes.size(); ++process) {
      if (model.processes[process].pid != child.parent_pid) continue;
      started += facts.StepAt(process, child.start_ns) != kNone ? 1 / facts.count() : 0;
    }
  }
  facts.ForEachLook([&](ProcessIndex, const StateLook& look) {
    waited_ns += static_cast<double>(look.sums.found_ns[static_cast<size_t>(BlockedIn::kChild)]) / facts.count();
  });
  if (started >= kStartsEachStep) {
    return absl::StrFormat("%.0f %s %s in each %s.", started, started < 1.5 ? "process" : "processes",
                           started < 1.5 ? "begins" : "begin", facts.StepNoun());
  }
  if (!facts.IsAtLeast(waited_ns, kWaitForChildPercent)) return "";
  return absl::StrCat("Thread-state samples found it waiting for the end of a child process for ", HumanTime(waited_ns),
                      " of each ", facts.StepNoun(), ": it starts new ones.");
}

// " Only one other thread of the program works meanwhile (4711: 2.1 ms of a step).", while the main thread is blocked; empty: none
// works, or several.
std::string WorksAlone(const StepFacts& facts, double blocked_ns) {
  const std::vector<ThreadTime> threads = ThreadsWithoutCalls(facts);
  const bool is_one = !threads.empty() && threads.front().wanted_ns >= kWorksMeanwhile * blocked_ns &&
                      (threads.size() == 1 || threads[1].wanted_ns < kIdleMeanwhile * blocked_ns);
  return is_one ? absl::StrFormat(" Only one other thread of the program works meanwhile (%d: %s of a %s).",
                                  threads.front().tid, HumanTime(threads.front().wanted_ns), facts.StepNoun())
                : "";
}

Finding OfStretches(const StepFacts& facts, const Stretches& stretches) {
  const GapLines& longest = *stretches.longest;
  const bool is_blocked = 2 * stretches.blocked_ns > stretches.ns;
  const bool releases = !is_blocked && longest.released_part > kMostlyReleases;
  const bool may_wait =
      !longest.blocked_ns && !HasSamples(longest) && !HasOneThread(facts.model(), facts.steps().tracks.front().process);
  const double gain_ns = std::min(stretches.ns, facts.step_ns());
  const std::string processes = facts.HasSteps() ? StartedProcesses(facts) : "";
  const std::string works = is_blocked ? WorksAlone(facts, stretches.blocked_ns) : "";
  const bool is_own = !releases && !longest.is_called_back && !MakesTensor(longest);
  const std::string line = HasSamples(longest) ? longest.sampled->line : longest.text;
  const bool in_loop = !HasSamples(longest) && longest.package.empty() && !MakesTensor(longest);
  const SlowText known = is_own ? SlowTextOf(facts, line, in_loop) : SlowText();
  Finding finding = {
      .where = longest.module,
      .line = line,
      .is_in_loop = in_loop,
      .sentence = absl::StrCat(WhoRuns(longest), " ",
                               is_blocked ? "is blocked"
                               : releases ? absl::StrFormat("releases tensors, %.0f at a time,", longest.released)
                               : !SeesLibraries(facts.model().processes.front())
                                   ? "runs code outside of operations, or waits (the trace does not tell which),"
                               : may_wait ? "runs Python or native code that calls no hooked library, or waits for "
                                            "another thread (states were not sampled),"
                                          : "runs Python or native code that calls no hooked library",
                               known.text.empty() ? "" : " (among these lines, or what they call here: ", known.text,
                               known.text.empty() ? "" : ")", " for ", facts.PartOfStep(gain_ns), ", in stretches of ",
                               HumanTime(stretches.ns / std::max(stretches.count, 1.0)), " on average",
                               longest.before.empty() || longest.after.empty()
                                   ? ""
                                   : absl::StrCat(", mostly between ", longest.before, " and ", longest.after),
                               ".", PackageFunctionText(longest), WhatSamplesMet(facts, longest)),
      .gain_ns = gain_ns,
      .confidence = Confidence::kHigh,
      .evidence = "table accounting: rows \"not seen\", with the lines they lie between"};
  if (!processes.empty()) {
    absl::StrAppend(&finding.sentence, " ", processes);
    finding.advice =
        "Start processes once, before the steps, and keep them (one Pool or ProcessPoolExecutor for all), and give "
        "them much work at a time; what takes less than starting one, compute in the program itself.";
  } else if (!works.empty()) {
    absl::StrAppend(&finding.sentence, works);
    finding.advice =
        "It waits for one item at a time, so that the others wait, too: hand all of them to the threads first "
        "(pool.map, or a list of futures whose results are asked for behind the last submit), or a batch ahead.";
  } else if (!known.advice.empty()) {
    finding.advice = known.advice;
  } else if (is_blocked) {
    finding.advice = "Wait for it in another thread, or ask for it before it is needed (files, network, locks, sleep).";
  } else if (releases) {
    finding.advice =
        "What ends there held them (a list, a variable that is set anew or goes out of scope, a graph): keep fewer and "
        "larger tensors, or write into the same ones again (out=, in-place operations).";
  } else if (MakesTensor(longest)) {
    finding.advice =
        "A tensor is made of Python's objects there, one by one: join arrays first (torch.from_numpy(np.stack(list))), "
        "or torch.stack a list of tensors.";
  } else if (!longest.package.empty() && longest.is_called_back) {
    finding.advice = absl::StrCat(
        "That is what ", longest.function.empty() ? "the program" : longest.function, " asks ", longest.package,
        " for each time it is called: do it less often (each 100th step, each epoch), or less of it.");
  } else if (!longest.callback.empty()) {
    finding.advice =
        "Have it do less often what it does (ModelCheckpoint(save_freq=\"epoch\"), TensorBoard(update_freq=\"epoch\"), "
        "each 100th step), or leave it out.";
  } else if (!longest.package.empty()) {
    finding.advice =
        absl::StrCat("That is ", longest.package, "'s own work for each step: ",
                     longest.package == "keras" && facts.Uses("TensorFlow")
                         ? "compile(steps_per_execution=N) runs several steps in one call; else "
                         : "",
                     "a larger batch has less of it for each sample",
                     facts.steps().batch > 0 && facts.steps().batch <= kSmallBatch
                         ? absl::StrFormat(" (it is %d now: fit(batch_size=...), Dataset.batch).", facts.steps().batch)
                         : ".");
  } else {
    finding.advice =
        "Look at these lines: work on whole arrays instead of elements, do once what does not change, or do it beside "
        "the step (another thread or process, not each step).";
    if (facts.model().samples.empty()) finding.advice += " dlhook run --sample names the function.";
  }
  return finding;
}

}  // namespace

SlowText SlowTextOf(const StepFacts& facts, const std::string& line_label, bool in_loop) {
  constexpr size_t kMostSaid = 2;
  const std::string code = facts.Derived<SourceLines>().CodeOf(line_label, in_loop);
  std::vector<std::string> names, advice;
  for (const absl::string_view line : absl::StrSplit(code, '\n')) {
    for (const KnownCode& known : kKnownCode) {
      const std::string name(absl::StripSuffix(known.code, "("));
      std::string said = absl::StrCat(name, ", which ", known.does);
      if (!IsIn(known, line) || names.size() == kMostSaid || absl::c_linear_search(names, said)) continue;
      names.push_back(std::move(said));
      advice.push_back(absl::StrCat(name, ": ", known.advice));
    }
  }
  return {absl::StrJoin(names, "; and "), absl::StrJoin(advice, " ")};
}

std::string PackageFunctionText(const GapLines& lines) {
  std::vector<std::string> halves;
  if (!lines.package_function.empty()) halves.push_back(absl::StrCat("passes in ", lines.package_function));
  if (!lines.called_from.empty() && lines.called_from != lines.package_function)
    halves.push_back(absl::StrCat("follows a call in ", lines.called_from));
  return halves.empty() ? ""
                        : absl::StrCat(" More than half of it ", absl::StrJoin(halves, ", and more than half "), ".");
}

double StretchesNs(const StepFacts& facts) {
  double ns = 0;
  for (const GapLines& lines : GapLinesOf(facts)) ns += lines.stretch_ns;
  return ns;
}

// Of runs without steps: what samples met in known code, again and again.
std::vector<Finding> KnownInSamples(const StepFacts& facts) {
  constexpr int kLeastTimes = 3;  // that other code ran meanwhile
  struct Met {
    double ns = 0;
    int times = 0;
    std::map<StackIndex, double> by_stack;
  };
  const TraceModel& model = facts.model();
  const SampleColumns& samples = model.samples;
  std::map<StackIndex, std::vector<const KnownCode*>> known_of;
  const auto of_stack = [&](StackIndex stack) -> const std::vector<const KnownCode*>& {
    const auto [found, is_new] = known_of.try_emplace(stack);
    if (!is_new || stack == kNone) return found->second;
    const std::string code = facts.Derived<SourceLines>().CodeOf(facts.LineOfStack(stack));
    std::vector<absl::string_view> inside;  // functions of packages, called by the program's line
    for (const PythonFrame& frame : model.python_stacks[stack].frames) {
      if (!IsFrameworkFile(model.names[frame.file])) break;
      for (const absl::string_view part : absl::StrSplit(model.names[frame.function], '.')) inside.push_back(part);
    }
    for (const absl::string_view line : absl::StrSplit(code, '\n')) {
      for (const KnownCode& known : kKnownCode) {
        absl::string_view name = known.function.empty() ? known.code : known.function;
        absl::ConsumeSuffix(&name, "(");
        name.remove_prefix(name.rfind('.') + 1);
        const bool runs =
            inside.empty() || absl::c_any_of(inside, [&](auto part) { return absl::StartsWith(part, name); });
        if (runs && IsIn(known, line) && !absl::c_linear_search(found->second, &known)) found->second.push_back(&known);
      }
    }
    return found->second;
  };
  std::map<const KnownCode*, Met> met;
  std::map<ThreadIndex, std::vector<const KnownCode*>> last;
  double all_ns = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    all_ns += static_cast<double>(samples.cpu_ns[i]);
    const std::vector<const KnownCode*>& now = of_stack(samples.python_stack[i]);
    std::vector<const KnownCode*>& before = last[samples.thread[i]];
    for (const KnownCode* const known : now) {
      Met& sum = met[known];
      sum.ns += static_cast<double>(samples.cpu_ns[i]);
      sum.times += absl::c_linear_search(before, known) ? 0 : 1;
      sum.by_stack[samples.python_stack[i]] += static_cast<double>(samples.cpu_ns[i]);
    }
    before = now;
  }
  std::vector<Finding> findings;
  for (const auto& [known, sum] : met) {
    const double gain_ns = sum.ns / all_ns * facts.step_ns();  // as its part of the processor time
    if (sum.times < kLeastTimes || !facts.IsAtLeast(gain_ns, kSlowLinesPercent)) continue;
    const std::string line = facts.LineOfStack(MostOf(sum.by_stack)->first);
    const std::string name(absl::StripSuffix(known->code, "("));
    findings.push_back(
        {.line = line,
         .sentence = absl::StrFormat("%s (%s) %s: again and again, %s of %s of processor time, by samples.", name, line,
                                     known->does, HumanTime(sum.ns), HumanTime(all_ns)),
         .gain_ns = gain_ns,
         .evidence = "samples in this function, or at the line that has it; table hotspots",
         .advice = absl::StrCat(name, ": ", known->advice)});
  }
  return findings;
}

std::vector<Finding> FindSlowLines(const StepFacts& facts) {
  if (facts.HasGpuTimes()) return {};
  if (!facts.HasSteps()) return KnownInSamples(facts);
  const bool waits_in_pool = !FindPoolWait(facts).empty();
  std::map<std::string, Stretches> by_function;
  for (const GapLines& lines : GapLinesOf(facts)) {  // the longest first
    if (lines.stretch_ns == 0) continue;
    // The main code is no one place: by its lines.
    Stretches& stretches = by_function[lines.function.empty() ? lines.text : lines.function];
    if (stretches.longest == nullptr || lines.stretch_ns > stretches.longest->stretch_ns) stretches.longest = &lines;
    stretches.ns += lines.stretch_ns;
    stretches.count += lines.stretch_count;
    stretches.blocked_ns += std::min(lines.blocked_ns.value_or(0), lines.stretch_ns);
  }
  std::vector<Finding> findings;
  for (const auto& [function, stretches] : by_function) {
    if (waits_in_pool && 2 * stretches.blocked_ns > stretches.ns) continue;
    if (facts.IsAtLeast(stretches.ns, kSlowLinesPercent)) findings.push_back(OfStretches(facts, stretches));
  }
  return findings;
}

}  // namespace dlhook::analyzer::findings
