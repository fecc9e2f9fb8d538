// The ring is that of perf_event_open(2): the kernel sets `data_head`, we set `data_tail`.
#include "analyzer/doctor/cpu_samples.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer::inline doctor {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kDataBytes = 8 * kPageBytes;  // 6 s of a CPU's samples

struct Sample {
  perf_event_header header;
  uint64_t address;
  uint32_t process;
  uint32_t thread;
};

perf_event_attr Attributes() {
  perf_event_attr attributes = {};
  attributes.size = sizeof attributes;
  attributes.type = PERF_TYPE_SOFTWARE;
  attributes.config = PERF_COUNT_SW_TASK_CLOCK;
  attributes.sample_period = kSampleNs;
  attributes.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID;
  attributes.disabled = 1;
  attributes.enable_on_exec = 1;
  attributes.inherit = 1;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  return attributes;
}

// Copies `size` bytes at `offset` of the ring, which may wrap.
void CopyOut(const char* data, uint64_t offset, void* to, uint64_t size) {
  for (uint64_t i = 0; i < size; ++i) static_cast<char*>(to)[i] = data[(offset + i) % kDataBytes];
}

}  // namespace

CpuSampler::~CpuSampler() {
  for (const Ring& ring : rings_) {
    if (ring.pages != nullptr) munmap(ring.pages, kPageBytes + kDataBytes);
    close(ring.fd);
  }
}

absl::Status CpuSampler::Open(pid_t program) {
  perf_event_attr attributes = Attributes();
  const long cpus = sysconf(_SC_NPROCESSORS_CONF);
  for (long cpu = 0; cpu < cpus; ++cpu) {
    const long fd = syscall(SYS_perf_event_open, &attributes, program, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0 && errno == ENODEV) continue;  // it is offline
    if (fd < 0) return absl::PermissionDeniedError(absl::StrCat("perf_event_open: ", strerror(errno)));
    rings_.push_back({static_cast<int>(fd), nullptr});
    void* pages = mmap(nullptr, kPageBytes + kDataBytes, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(fd), 0);
    if (pages == MAP_FAILED)
      return absl::PermissionDeniedError(absl::StrCat("memory for perf events: ", strerror(errno)));
    rings_.back().pages = pages;
  }
  return absl::OkStatus();
}

void CpuSampler::Step() {
  for (const Ring& ring : rings_) {
    if (ring.pages != nullptr) Read(ring);
  }
}

void CpuSampler::Read(const Ring& ring) {
  auto page = static_cast<perf_event_mmap_page*>(ring.pages);
  const char* data = static_cast<const char*>(ring.pages) + kPageBytes;
  const uint64_t head = std::atomic_ref(page->data_head).load(std::memory_order_acquire);
  uint64_t tail = page->data_tail;
  while (tail < head) {
    Sample sample;
    CopyOut(data, tail, &sample.header, sizeof sample.header);
    if (sample.header.size == 0) break;
    if (sample.header.type == PERF_RECORD_SAMPLE && sample.header.size >= sizeof sample) {
      CopyOut(data, tail, &sample, sizeof sample);
      ++counts_[static_cast<pid_t>(sample.process)][sample.address];
    }
    tail += sample.header.size;
  }
  std::atomic_ref(page->data_tail).store(tail, std::memory_order_release);
}

}  // namespace dlhook::analyzer::doctor
