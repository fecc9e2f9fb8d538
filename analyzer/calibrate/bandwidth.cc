// Each thread stays on its own processor and has its own array, touched only by it. Arrays of half a cache fit into it;
// those for memory are four times the size of all caches in reach.
#include <sys/sysinfo.h>

#include <cstdlib>
#include <thread>

#include "analyzer/calibrate/measuring.h"
#include "preload/format/processor_id.h"

namespace dlhook::analyzer::inline calibrate {
namespace {

constexpr double kPassSeconds = 0.25;
constexpr int kBandwidthChildSeconds = 20;
constexpr uint64_t kLeastMemoryBytes = 64 << 20;
constexpr uint64_t kMostMemoryBytes = uint64_t{16} << 30;  // two sockets can have 2.25 GiB of L3
constexpr uint64_t kBytesAPass = 8 << 20;  // a pass over a small array is repeated until it has read this much

// Vectors as wide as the processor's: eight at a time hide the latency of additions.
template <typename Vector>
[[gnu::always_inline]] inline double Read(const double* data, size_t count) {
  constexpr size_t kLanes = sizeof(Vector) / sizeof(double);
  Vector sums[8] = {};
  const auto* at = reinterpret_cast<const Vector*>(data);
  for (size_t i = 0; i + 8 <= count / kLanes; i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += at[i + j];
  }
  double sum = 0;
  for (const Vector& one : sums) sum += one[0];
  return sum;
}

template <typename Vector>
[[gnu::always_inline]] inline double Triad(double* data, size_t count) {
  constexpr size_t kLanes = sizeof(Vector) / sizeof(double);
  const size_t third = count / 3 / kLanes / 8 * 8;
  auto* a = reinterpret_cast<Vector*>(data);
  const auto *b = a + third, *c = b + third;
  for (size_t i = 0; i < third; ++i) a[i] = b[i] + 3.0 * c[i];
  return data[0];
}

// NOLINTBEGIN(modernize-use-using): attributes of vectors need no typedef, but gcc takes them only here.
typedef double Vector128 __attribute__((vector_size(16), may_alias));
typedef double Vector256 __attribute__((vector_size(32), may_alias));
typedef double Vector512 __attribute__((vector_size(64), may_alias));
// NOLINTEND(modernize-use-using)

double Read128(double* data, size_t count) { return Read<Vector128>(data, count); }
[[gnu::target("avx2")]] double Read256(double* data, size_t count) { return Read<Vector256>(data, count); }
[[gnu::target("avx512f")]] double Read512(double* data, size_t count) { return Read<Vector512>(data, count); }
double Triad128(double* data, size_t count) { return Triad<Vector128>(data, count); }
[[gnu::target("avx2")]] double Triad256(double* data, size_t count) { return Triad<Vector256>(data, count); }
[[gnu::target("avx512f")]] double Triad512(double* data, size_t count) { return Triad<Vector512>(data, count); }

using Loop = double (*)(double*, size_t);

Loop Widest(Loop narrow, Loop wide, Loop widest) {
  const uint32_t sets = IdentifyProcessor().instruction_sets;
  return (sets & kAvx512) != 0 ? widest : (sets & kFma) != 0 ? wide : narrow;
}

// Threads that stay on their processors and spin between pieces of work: passing one on takes no system call.
class Crew {
 public:
  explicit Crew(const std::vector<int>& processors) {
    for (size_t i = 1; i < processors.size(); ++i) {
      threads_.emplace_back([this, i, processor = processors[i]] {
        RunOn({processor});
        Serve(i);
      });
    }
    RunOn({processors.front()});
  }
  ~Crew() {
    is_over_ = true;
    Run([](size_t) {});
    for (std::thread& thread : threads_) thread.join();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  size_t size() const { return threads_.size() + 1; }

  void Run(const std::function<void(size_t)>& work) {
    work_ = &work;
    left_ = threads_.size();
    ++round_;
    work(0);
    while (left_ != 0) Wait();
  }

 private:
  static void Wait() { __builtin_ia32_pause(); }

  void Serve(size_t number) {
    for (uint64_t round = 1;; ++round) {
      while (round_ < round) Wait();
      const bool is_over = is_over_;
      (*work_)(number);
      --left_;
      if (is_over) return;
    }
  }

  std::vector<std::thread> threads_;
  const std::function<void(size_t)>* work_ = nullptr;
  std::atomic<uint64_t> round_ = 0;
  std::atomic<size_t> left_ = 0;
  std::atomic<bool> is_over_ = false;
};

// One array per thread, first touched by it.
class Arrays {
 public:
  Arrays(uint64_t bytes_each, Crew* crew) : count_(bytes_each / sizeof(double) / 192 * 192), arrays_(crew->size()) {
    crew->Run([this](size_t i) {
      arrays_[i] = std::unique_ptr<double[], Free>(
          static_cast<double*>(aligned_alloc(4096, (count_ * sizeof(double) + 4095) / 4096 * 4096)));
      if (arrays_[i]) std::fill_n(arrays_[i].get(), count_, 1.0);
    });
  }
  bool AreThere() const {
    return absl::c_all_of(arrays_, [](const auto& array) { return array != nullptr; });
  }
  double* operator[](size_t i) { return arrays_[i].get(); }
  size_t count() const { return count_; }
  uint64_t bytes() const { return count_ * sizeof(double); }

 private:
  struct Free {
    void operator()(double* array) const { free(array); }  // NOLINT(cppcoreguidelines-no-malloc): as it was allocated
  };
  size_t count_;
  std::vector<std::unique_ptr<double[], Free>> arrays_;
};

std::atomic<double> g_sink;  // so that sums are not optimized away

void MeasureLoop(const char* what, Loop loop, uint64_t bytes_each, Crew* crew, Calibration* results) {
  Arrays arrays(bytes_each, crew);
  if (!arrays.AreThere()) {
    results->not_measured.push_back({what, "there is not enough memory"});
    return;
  }
  const uint64_t passes = std::max<uint64_t>(1, kBytesAPass / arrays.bytes());
  const auto pass = [&] {
    crew->Run([&](size_t i) {
      double sum = 0;
      for (uint64_t n = 0; n < passes; ++n) sum += loop(arrays[i], arrays.count());
      g_sink = sum;
    });
  };
  pass();
  const auto bytes = static_cast<double>(arrays.bytes() * passes * crew->size());
  results->measured.push_back({RateOf(bytes, kPassSeconds, pass), what, static_cast<uint32_t>(crew->size()), "GB/s",
                               absl::StrFormat("%d KiB in each thread%s", arrays.bytes() / 1024,
                                               what == kMemoryTriad ? ", as STREAM counts" : "")});
}

void MeasureDividing(Crew* crew, Calibration* results) {
  constexpr int kRounds = 100;
  const std::function<void(size_t)> nothing = [](size_t) {};
  const auto rounds = [&] {
    for (int i = 0; i < kRounds; ++i) crew->Run(nothing);
  };
  results->measured.push_back({TimeOfEach(kRounds, 0.1, rounds), kDividing, static_cast<uint32_t>(crew->size()), "ns",
                               "to threads that spin on processors of their own, and back"});
}

uint64_t MemoryBytes(const Caches& caches, size_t threads) {
  struct sysinfo info = {};
  sysinfo(&info);
  const uint64_t free_bytes = uint64_t{info.freeram} * info.mem_unit;
  const uint64_t all_caches =
      caches.l3_bytes * std::min<uint64_t>(caches.l3_count, threads) + caches.l2_bytes * threads;
  return std::min(std::clamp(4 * all_caches, kLeastMemoryBytes, kMostMemoryBytes), free_bytes / 4) / threads;
}

Calibration MeasureWith(const std::vector<int>& processors, const Caches& caches) {
  Calibration results;
  Crew crew(processors);
  const Loop read = Widest(Read128, Read256, Read512);
  const auto threads = static_cast<uint32_t>(processors.size());
  if (caches.l2_bytes > 0) MeasureLoop(kL2Read, read, caches.l2_bytes / 2, &crew, &results);
  const uint32_t sharers = std::min(threads, std::max(caches.l3_sharers, 1u));
  const uint64_t l3_bytes = caches.l3_bytes / 2 / sharers;
  if (caches.l3_bytes > 0 && l3_bytes >= 2 * caches.l2_bytes) {
    MeasureLoop(kL3Read, read, l3_bytes, &crew, &results);
  } else {
    results.not_measured.push_back(
        {kL3Read, caches.l3_bytes == 0 ? "sysfs shows none" : "its part for each thread is hardly larger than an L2"});
  }
  if (caches.l2_bytes == 0) results.not_measured.push_back({kL2Read, "sysfs shows none"});
  MeasureLoop(kMemoryRead, read, MemoryBytes(caches, threads), &crew, &results);
  MeasureLoop(kMemoryTriad, Widest(Triad128, Triad256, Triad512), MemoryBytes(caches, threads), &crew, &results);
  if (threads > 1) MeasureDividing(&crew, &results);
  return results;
}

}  // namespace

Calibration MeasureBandwidth(const std::vector<int>& processors) {
  Calibration results;
  const Caches caches = ReadCaches(processors);
  for (const std::vector<int>& threads : OneAndAll(processors)) {
    const auto measure = [&] { return MeasureWith(threads, caches); };
    results.Add(MeasureInChild(processors, kBandwidthChildSeconds, "bandwidth", measure));
  }
  return results;
}

}  // namespace dlhook::analyzer::calibrate
