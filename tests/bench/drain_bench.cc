// What the drain costs per record, alone on one core: a full ring of one kind of record -> packets, which are thrown away.
//   drain_bench [ROUNDS]
// Prints one JSON object with the CPU time per record of each round, for matrix products and for lines of oneDNN's log.
// Good for profiling, too: nothing else runs here.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "preload/drain/drain.h"
#include "preload/format/hook_table.h"
#include "preload/format/ring.h"
#include "preload/format/session.h"

namespace dlhook {
namespace {

constexpr uint64_t kRingBytes = 1 << 20;
constexpr int kRingsPerRound = 40;

const char* const kLines[] = {
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32::blocked:abcd::f0 "
    "wei:f32:ap:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd16b::f0,attr-scratchpad:user,"
    "alg:convolution_direct,mb60_ic1oc6_ih32oh28kh5sh1dh0ph0_iw32ow28kw5sw1dw0pw0,0.0429688\n",
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:aBcd16b::f0 "
    "dst:f32::blocked:abcd::f0,attr-scratchpad:user,,60x6x28x28,0.0279297\n",
    "onednn_verbose,v1,primitive,exec,cpu,inner_product,brgemm:avx512_core,backward_weights,src:f32::blocked:ab::f0 "
    "wei:f32::blocked:ab::f0 bia:undef::undef::: "
    "dst:f32::blocked:ab::f0,attr-scratchpad:user,,mb60ic400oc120,0.013916\n",
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,backward_weights,src:f32::blocked:abcd::f0 "
    "wei:f32:ap:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:ap:blocked:aBcd16b::f0,attr-scratchpad:user,"
    "alg:convolution_direct,mb60_ic1oc6_ih32oh28kh5sh1dh0ph0_iw32ow28kw5sw1dw0pw0,0.0810547\n",
};

class NullSink final : public ByteSink {
 public:
  WriteResult Write(const char*, size_t size, bool) override {
    bytes += size;
    return WriteResult::kOk;
  }
  bool Truncate(uint64_t) override { return true; }
  uint64_t bytes = 0;
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

// A session with one ring in ordinary memory.
class Bench {
 public:
  Bench() : memory_(std::aligned_alloc(4096, kSessionDataStart + kRingBytes)) {
    std::memset(memory_.get(), 0, kSessionDataStart + kRingBytes);
    session_ = new (memory_.get()) SessionHeader{};
    session_->magic = kSessionMagic;
    session_->layout = kSessionLayout;
    session_->hook_table_hash = kHookTableHash;
    session_->clock_kind = static_cast<uint32_t>(ClockKind::kTsc);
    session_->ticks_per_second = 2'500'000'000;
    session_->slots_in_use = 1;
    session_->slots[0].data_offset = kSessionDataStart;
    session_->slots[0].bytes = kRingBytes;
    std::strcpy(session_->tap_sources[0].version, "v3.12.0");
    session_->tap_sources[0].ready = 1;
    ring_.Start(&session_->slots[0], static_cast<char*>(memory_.get()) + kSessionDataStart);
    if (!drain_.Open(session_, kSessionDataStart + kRingBytes, &sink_)) {
      std::fprintf(stderr, "drain: %s\n", drain_.error());
      std::exit(2);
    }
  }

  struct Cost {
    double ns;
    double bytes;
  };
  // CPU time per record of `put`, which returns false when the ring is full.
  Cost Measure(const std::function<bool(RingProducer*)>& put) {
    double ns = 0;
    uint64_t records = 0;
    const uint64_t bytes_before = sink_.bytes;
    for (int i = 0; i < kRingsPerRound; ++i) {
      while (put(&ring_)) ++records;
      const uint64_t before = ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID);
      drain_.Step(true, false);
      ns += static_cast<double>(ClockNanoseconds(CLOCK_THREAD_CPUTIME_ID) - before);
    }
    const auto count = static_cast<double>(records);
    return {ns / count, static_cast<double>(sink_.bytes - bytes_before) / count};
  }

 private:
  std::unique_ptr<void, Free> memory_;
  SessionHeader* session_;
  RingProducer ring_;
  NullSink sink_;
  Drain drain_;
};

RecordHeader* Reserve(RingProducer* ring, uint32_t words) {
  RecordHeader* record = ring->Reserve(words);
  return record != nullptr ? record : ring->ReserveAfterLook(words);
}

uint64_t g_sequence = 0;
uint64_t g_ticks = 1'000'000;

// 40 shapes, four call sites, 480 operands, as gemm_caller.c.
bool PutGemm(RingProducer* ring) {
  constexpr uint16_t kRecordWords = sizeof(CallRecord) / 8 + kWords<GemmShape> + 3;
  RecordHeader* space = Reserve(ring, kRecordWords);
  if (space == nullptr) return false;
  static const auto hook = static_cast<HookId>(FindHook("sgemm_"));
  const int64_t at = static_cast<int64_t>(++g_sequence % 160);
  auto* record = reinterpret_cast<CallRecord*>(space);
  record->header = {kRecordWords, RecordType::kGemmCall, 0, hook, kWords<GemmShape>, 3};
  g_ticks += 3000;
  record->start_ticks = g_ticks - 2000 - g_sequence % 500;
  record->end_ticks = g_ticks;
  record->sequence = g_sequence;
  record->parent_distance = 0;
  record->status = 0;
  GemmShape shape = {};
  shape.a_type = shape.b_type = shape.c_type = DataType::kF32;
  shape.trans_a = shape.trans_b = 'N';
  shape.m = shape.n = shape.k = 8 * (at % 40);
  shape.lda = shape.ldb = shape.ldc = 512;
  shape.batch = 1;
  std::memcpy(record->shape(), &shape, sizeof shape);
  for (int i = 0; i < 3; ++i) record->addresses()[i] = 0x7f0000000000 + static_cast<uint64_t>(3 * at + i) * 4096;
  ring->Commit(space);
  return true;
}

bool PutLine(RingProducer* ring) {
  const char* text = kLines[g_sequence % std::size(kLines)];
  const auto size = static_cast<uint32_t>(std::strlen(text));
  const auto words = static_cast<uint16_t>((sizeof(TapLineRecord) + size + 7) / 8);
  RecordHeader* space = Reserve(ring, words);
  if (space == nullptr) return false;
  g_ticks += 100000;
  auto* record = reinterpret_cast<TapLineRecord*>(space);
  *record = {{words, RecordType::kTapLine, 0, 0, 0, 0}, g_ticks, ++g_sequence, 0, size, 0, 0};
  std::memcpy(record + 1, text, size);
  ring->Commit(space);
  return true;
}

void Print(const char* name, const std::vector<double>& values, const char* end) {
  std::printf("\"%s\": [", name);
  for (size_t i = 0; i < values.size(); ++i) std::printf("%s%.2f", i == 0 ? "" : ", ", values[i]);
  std::printf("]%s", end);
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 9;
  auto bench = std::make_unique<Bench>();
  std::vector<double> gemm_ns, gemm_bytes, line_ns, line_bytes;
  bench->Measure(&PutGemm);  // dictionaries filled, pages touched
  bench->Measure(&PutLine);
  for (int i = 0; i < rounds; ++i) {
    const Bench::Cost gemm = bench->Measure(&PutGemm);
    const Bench::Cost line = bench->Measure(&PutLine);
    gemm_ns.push_back(gemm.ns);
    gemm_bytes.push_back(gemm.bytes);
    line_ns.push_back(line.ns);
    line_bytes.push_back(line.bytes);
  }
  std::printf("{");
  Print("gemm_ns", gemm_ns, ", ");
  Print("gemm_bytes", gemm_bytes, ", ");
  Print("line_ns", line_ns, ", ");
  Print("line_bytes", line_bytes, "}\n");
  return 0;
}

}  // namespace
}  // namespace dlhook

int main(int argc, char** argv) { return dlhook::Main(argc, argv); }
