#include "preload/gpu/cupti_callbacks.h"

#include "preload/format/clock.h"
#include "preload/gpu/cupti_hooks.h"
#include "preload/gpu/gpu_state.h"
#include "preload/gpu/gpu_time.h"
#include "preload/gpu/injection.h"
#include "preload/runtime/config.h"
#include "preload/runtime/process_state.h"
#include "preload/runtime/scope.h"

namespace dlhook::inline gpu {
namespace {

// The last link that this thread wrote: correlation id, and the lower half of the call's sequence number. A function of
// the runtime and the driver's function inside it have the same id: the second is recorded only if it is a separate
// recorded call.
__thread uint64_t t_last_link;

// For requests that must not be refused, if nothing else is left. Never read.
alignas(8) uint8_t g_last_scratch[4 << 10];

void TellLink(ThreadState* thread, uint32_t correlation) {
  uint64_t sequence = EnclosingSequence(thread);
  uint64_t link = uint64_t{correlation} | sequence << 32;
  if (link == t_last_link) return;
  t_last_link = link;
  GpuLinkRecord record = {};
  record.header = {sizeof record / 8, RecordType::kGpuLink, 0, 0, 0, 0};
  record.ticks = ReadTicks(thread->clock);
  record.sequence = sequence;
  record.correlation = correlation;
  WriteGpuRecord(thread, &record.header);
}

void TellGraphNode(GpuState* state, ThreadState* thread, const cupti::GraphData& graph, bool is_clone) {
  const CuptiApi* api = LoadedCupti();
  GpuGraphNodeRecord record = {};
  record.header = {sizeof record / 8, RecordType::kGpuGraphNode, 0, 0, 0, 0};
  // Counted before checking the phase again: the thread that hands CUPTI over waits for those inside, and no more
  // enter.
  state->inside_callbacks.fetch_add(1);
  bool is_known = state->phase.load() == kGpuCupti && api != nullptr && api->get_graph_node_id != nullptr &&
                  api->get_graph_node_id(graph.node, &record.node) == cupti::kSuccess;
  if (is_known && is_clone) is_known = api->get_graph_node_id(graph.original_node, &record.original) == cupti::kSuccess;
  state->inside_callbacks.fetch_sub(1);
  if (!is_known) return;
  record.ticks = ReadTicks(thread->clock);
  record.sequence = EnclosingSequence(thread);
  WriteGpuRecord(thread, &record.header);
}

void OnResource(GpuState* state, uint32_t id, const cupti::ResourceData& data) {
  if (id == cupti::kModuleUnloadStarting) {
    state->module_unloads.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  bool is_node = id == cupti::kGraphNodeCreated || id == cupti::kGraphNodeCloned;
  if (is_node) state->has_graphs.store(1, std::memory_order_relaxed);
  ThreadState* thread = is_node && data.descriptor != nullptr ? ScopeThread(GpuFamilies()) : nullptr;
  if (thread != nullptr) TellGraphNode(state, thread, *data.descriptor, id == cupti::kGraphNodeCloned);
}

// An id consists of both numbers of the call.
constexpr uint32_t kSequenceBits = 40;
constexpr uint64_t kSequenceMask = (uint64_t{1} << kSequenceBits) - 1;

// What this thread has on CUPTI's stack. By slot, used by the slot's thread only; entries of another thread or another
// CUPTI count as none.
struct Pushed {
  static constexpr uint32_t kMost = kMaxOpenCalls;
  uint32_t thread_id;
  uint32_t generation;
  uint32_t count;
  uint32_t depths[kMost];  // of the calls that pushed: how many were open then, including it
};
Pushed g_pushed[kMaxSlots];
std::atomic<uint32_t> g_generation{1};

Pushed* PushedOf(const ThreadState* thread) {
  const ProcessState* process = GetProcess();
  if (process == nullptr) return nullptr;
  Pushed* pushed = &g_pushed[thread - process->threads];
  uint32_t generation = g_generation.load(std::memory_order_relaxed);
  if (pushed->thread_id != thread->thread_id || pushed->generation != generation) {
    pushed->thread_id = thread->thread_id;
    pushed->generation = generation;
    pushed->count = 0;
  }
  return pushed;
}

// Pops what calls at this depth and deeper have pushed: the one that ends, and those left without returning.
void PopFrom(const CuptiApi& api, Pushed* pushed, uint32_t depth) {
  for (; pushed->count != 0 && pushed->depths[pushed->count - 1] >= depth; --pushed->count) {
    uint64_t last = 0;
    api.pop_external(cupti::kCustom2, &last);
  }
}

// Records of single functions are available since CUDA 12.5; before, only of all functions.
void EnableFunctions(const CuptiApi& api, bool on) {
  if (api.enable_driver_api == nullptr || api.enable_runtime_api == nullptr) {
    auto enable = on ? api.enable : api.disable;
    enable(cupti::kDriver);
    enable(cupti::kRuntime);
    return;
  }
  for (const CallbackRange& range : kWorkCallbacks) {
    auto enable = range.domain == cupti::kDomainDriver ? api.enable_driver_api : api.enable_runtime_api;
    for (uint32_t id = range.first; id <= range.last; ++id) enable(id, on ? 1 : 0);
  }
}

constexpr CallbackRange kRanges[] = {
    {cupti::kDomainDriver, 43, 82},     // cuMemcpyHtoD … cu64Memcpy3DAsync, cuMemsetD8 … cu64MemsetD2D32
    {cupti::kDomainDriver, 115, 117},   // cuLaunch, cuLaunchGrid, cuLaunchGridAsync
    {cupti::kDomainDriver, 216, 227},   // cuMemsetD8Async … cu64MemsetD2D32Async
    {cupti::kDomainDriver, 232, 234},   // cu64Memcpy2D, …Unaligned, …Async
    {cupti::kDomainDriver, 248, 254},   // cuMemcpy_v2, cuMemsetD8_v2 … cuMemsetD2D32_v2
    {cupti::kDomainDriver, 276, 293},   // cuMemcpyHtoD_v2 … cuMemcpyHtoAAsync_v2
    {cupti::kDomainDriver, 305, 307},   // cuMemcpy, cuMemcpyAsync, cuLaunchKernel
    {cupti::kDomainDriver, 318, 321},   // cuMemcpyPeer … cuMemcpy3DPeerAsync
    {cupti::kDomainDriver, 397, 416},   // cuMemcpyHtoD_v2_ptds … cuMemsetD2D32_v2_ptds
    {cupti::kDomainDriver, 418, 433},   // cuMemcpyAsync_ptsz … cuMemsetD2D32Async_ptsz
    {cupti::kDomainDriver, 442, 442},   // cuLaunchKernel_ptsz
    {cupti::kDomainDriver, 477, 478},   // cuLaunchCooperativeKernel, _ptsz
    {cupti::kDomainDriver, 480, 480},   // cuLaunchCooperativeKernelMultiDevice
    {cupti::kDomainDriver, 514, 515},   // cuGraphLaunch, _ptsz
    {cupti::kDomainDriver, 652, 653},   // cuLaunchKernelEx, _ptsz
    {cupti::kDomainDriver, 761, 762},   // cuMemBatchDecompressAsync, _ptsz (12.6)
    {cupti::kDomainDriver, 776, 779},   // cuMemcpyBatchAsync, cuMemcpy3DBatchAsync, _ptsz
    {cupti::kDomainDriver, 796, 799},   // their _v2 (13.0)
    {cupti::kDomainDriver, 837, 840},   // cuMemcpyWithAttributesAsync, cuMemcpy3DWithAttributesAsync, _ptsz (13.2)
    {cupti::kDomainRuntime, 13, 13},    // cudaLaunch
    {cupti::kDomainRuntime, 31, 52},    // cudaMemcpy … cudaMemcpyFromSymbolAsync, cudaMemset … cudaMemset2DAsync
    {cupti::kDomainRuntime, 142, 145},  // cudaMemset3D, cudaMemcpy3D, …Async
    {cupti::kDomainRuntime, 160, 163},  // cudaMemcpyPeer … cudaMemcpy3DPeerAsync
    {cupti::kDomainRuntime, 211, 211},  // cudaLaunchKernel
    {cupti::kDomainRuntime, 213, 236},  // cudaLaunch_ptsz, cudaLaunchKernel_ptsz … cudaMemset2DAsync_ptsz
    {cupti::kDomainRuntime, 243, 246},  // cudaMemset3D_ptds … cudaMemcpy3DAsync_ptsz
    {cupti::kDomainRuntime, 249, 250},  // cudaMemcpy3DPeer_ptds, …Async_ptsz
    {cupti::kDomainRuntime, 269, 270},  // cudaLaunchCooperativeKernel, _ptsz
    {cupti::kDomainRuntime, 272, 272},  // cudaLaunchCooperativeKernelMultiDevice
    {cupti::kDomainRuntime, 311, 312},  // cudaGraphLaunch, _ptsz
    {cupti::kDomainRuntime, 430, 431},  // cudaLaunchKernelExC, _ptsz
    {cupti::kDomainRuntime, 482, 485},  // cudaMemcpyBatchAsync, cudaMemcpy3DBatchAsync, _ptsz (12.8)
    {cupti::kDomainRuntime, 505, 506},  // __cudaLaunchKernel, _ptsz
    {cupti::kDomainRuntime, 509, 512},  // cudaMemcpyBatchAsync, cudaMemcpy3DBatchAsync, _ptsz (13.0)
    {cupti::kDomainRuntime, 554, 557},  // cudaMemcpyWithAttributesAsync, cudaMemcpy3DWithAttributesAsync, _ptsz (13.2)
};

}  // namespace

constinit const std::span<const CallbackRange> kWorkCallbacks = kRanges;

void OnCuptiCallback(void*, uint32_t domain, uint32_t id, const void* data) {
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  // Also in a forked child, whose state is wiped.
  if (state == nullptr || state->phase.load(std::memory_order_relaxed) != kGpuCupti || data == nullptr) return;
  if (domain == cupti::kDomainResource) {
    OnResource(state, id, *static_cast<const cupti::ResourceData*>(data));
    return;
  }
  auto call = static_cast<const cupti::CallbackData*>(data);
  if (IsInjected()) OnInjectedCallback(domain, id, *call);
  if (call->site != cupti::kApiEnter) {
    // If no hook ends (gpu/injection.h): registered again when CUDA has started, so that it runs before CUDA's own.
    if (IsInjected() && state->exit_handler_due.exchange(0) != 0) FinishGpuTimeAtExit();
    return;
  }
  ThreadState* thread = ScopeThread(GpuFamilies());
  if (thread != nullptr) TellLink(thread, call->correlation);
}

void OnBufferRequested(uint8_t** buffer, size_t* size, size_t* most_records) {
  *most_records = 0;
  *size = 0;
  *buffer = nullptr;
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  uint32_t phase = state == nullptr ? kGpuOff : state->phase.load(std::memory_order_acquire);
  bool is_open = phase == kGpuCupti || phase == kGpuStarting || (state != nullptr && state->is_closing.load() != 0);
  const CuptiApi* api = LoadedCupti();
  BufferGift gift = {};
  if (is_open) {
    gift = TakeActivityBuffer(&state->buffers, GetConfig().gpu_buffer_bytes);
    bool is_first = gift.data != nullptr && state->has_buffers.exchange(1, std::memory_order_relaxed) == 0;
    if (is_first) state->exit_handler_due.store(1);
  }
  if (gift.data == nullptr) {
    if (api != nullptr && api->version >= cupti::kVersionRefusedRequests) return;  // CUPTI counts the dropped records
    if (state != nullptr) gift = TakeScratch(&state->buffers);
    if (gift.data == nullptr) gift = {g_last_scratch, sizeof g_last_scratch, 0};
  }
  *buffer = gift.data;
  *size = gift.bytes;
  *most_records = gift.most_records;
}

bool TakeOwnBuffer(uint8_t* buffer, size_t valid) {
  if (buffer == g_last_scratch) return true;
  GpuState* state = g_gpu_state.load(std::memory_order_acquire);
  if (state == nullptr || !TakeBackBuffer(&state->buffers, buffer, valid, &CountScratchRecords)) return false;
  if (HasFullBuffer(&state->buffers)) WakeGpuThread(state);
  return true;
}

void OnBufferCompleted(void* context, uint32_t stream, uint8_t* buffer, size_t size, size_t valid) {
  if (!TakeOwnBuffer(buffer, valid)) ReturnApplicationBuffer(context, stream, buffer, size, valid);
}

bool StartExternalCorrelation(const CuptiApi& api) {
  if (api.push_external == nullptr || api.pop_external == nullptr) return false;
  if (api.enable(cupti::kExternalCorrelation) != cupti::kSuccess) return false;
  EnableFunctions(api, true);
  return true;
}

void StopExternalCorrelation(const CuptiApi& api) {
  EnableFunctions(api, false);
  api.disable(cupti::kExternalCorrelation);
}

void PushGpuCall(const CuptiApi& api, ThreadState* thread, uint64_t sequence) {
  Pushed* pushed = PushedOf(thread);
  if (pushed == nullptr) return;
  PopFrom(api, pushed, thread->depth);
  if (pushed->count == Pushed::kMost) return;
  uint64_t id = uint64_t{thread->thread_id} << kSequenceBits | (sequence & kSequenceMask);
  if (api.push_external(cupti::kCustom2, id) == cupti::kSuccess) pushed->depths[pushed->count++] = thread->depth;
}

void PopGpuCall(const CuptiApi& api, ThreadState* thread) {
  Pushed* pushed = PushedOf(thread);
  if (pushed != nullptr) PopFrom(api, pushed, thread->depth + 1);
}

void ForgetPushedCalls() { g_generation.fetch_add(1); }

bool LinkOf(const cupti::ExternalCorrelationRecord& record, GpuLinkRecord* link) {
  if (record.external_kind != cupti::kCustom2) return false;
  *link = {};
  link->header = {sizeof *link / 8, RecordType::kGpuLink, 0, 0, 0, 0};
  link->sequence = record.external_id & kSequenceMask;
  link->correlation = record.correlation;
  link->thread_id = static_cast<uint32_t>(record.external_id >> kSequenceBits);
  return true;
}

}  // namespace dlhook::inline gpu
