#include <new>

#include "preload/abi/arguments.h"
#include "preload/abi/cuda_types.h"
#include "preload/base/spin_lock.h"
#include "preload/link/library_api.h"
#include "preload/runtime/thread_state.h"
#include "preload/track/cuda_state.h"

namespace dlhook::inline decode {
namespace {

// Communicators seen so far: their number, and what the library says about them, queried once.
struct Communicator {
  std::atomic<uint64_t> handle;  // 0: free; published last
  uint32_t number;
  std::atomic<int32_t> rank;
  std::atomic<int32_t> ranks;  // 0: the library's functions were not found yet
};
constexpr uint32_t kCommunicators = 256;
Communicator g_communicators[kCommunicators];
SpinLock g_lock;
uint32_t g_next_number = 0;

struct RankAndSize {
  int32_t rank = -1;
  int32_t ranks = 0;
};

Communicator* Find(uint64_t handle) {
  for (Communicator& communicator : g_communicators) {
    uint64_t found = communicator.handle.load(std::memory_order_acquire);
    if (found == handle) return &communicator;
    if (found == 0) return nullptr;
  }
  return nullptr;
}

constexpr uint64_t kGone = 1;  // not a handle of any library

template <typename AskLibrary>
const Communicator* FindOrAsk(uint64_t handle, AskLibrary ask) {
  if (handle <= kGone) return nullptr;
  Communicator* known = Find(handle);
  if (known != nullptr && known->ranks.load(std::memory_order_relaxed) > 0) return known;
  RankAndSize facts = ask();
  SpinLockHolder holder(&g_lock);
  const bool is_new = (known = Find(handle)) == nullptr;
  for (Communicator* free = g_communicators; known == nullptr && free != std::end(g_communicators); ++free) {
    if (free->handle.load(std::memory_order_relaxed) <= kGone) known = free;
  }
  if (known == nullptr) return nullptr;
  known->rank.store(facts.rank, std::memory_order_relaxed);
  known->ranks.store(facts.ranks, std::memory_order_relaxed);
  if (!is_new) return known;
  known->number = ++g_next_number;
  known->handle.store(handle, std::memory_order_release);
  return known;
}

struct NcclApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*rank)(const void* comm, int* rank) = Find("ncclCommUserRank");
  int (*count)(const void* comm, int* count) = Find("ncclCommCount");
  // NCCL opens a range of NVTX in each of its functions, these two included.
  RankAndSize Ask(const void* comm) const {
    RankAndSize facts;
    ThreadState* thread = dlhook_thread;
    if (thread != nullptr) thread->is_asking = 1;
    if (!Query(rank, comm, &facts.rank)) facts.rank = -1;
    if (!Query(count, comm, &facts.ranks)) facts.ranks = 0;
    if (thread != nullptr) thread->is_asking = 0;
    return facts;
  }
};

// MPI's own names may be hooked by another tool (PMPI): PMPI_ names are the library itself.
struct MpiApi : FunctionTable {
  using FunctionTable::FunctionTable;
  int (*rank)(int64_t comm, int* rank) = Find("PMPI_Comm_rank");
  int (*size)(int64_t comm, int* size) = Find("PMPI_Comm_size");
  int (*type_size)(int64_t type, int* bytes) = Find("PMPI_Type_size");
  RankAndSize Ask(int64_t comm) const {
    RankAndSize facts;
    if (!Query(rank, comm, &facts.rank)) facts.rank = -1;
    if (!Query(size, comm, &facts.ranks)) facts.ranks = 0;
    return facts;
  }
};

void Store(CallRecord* record, CollectiveShape shape, const Communicator* communicator, const void* send,
           const void* receive, const void* stream) {
  shape.rank = communicator == nullptr ? -1 : communicator->rank.load(std::memory_order_relaxed);
  shape.ranks = communicator == nullptr ? 0 : communicator->ranks.load(std::memory_order_relaxed);
  shape.communicator = communicator == nullptr ? 0 : communicator->number;
  new (record->shape()) CollectiveShape(shape);
  record->SetAddresses(send, receive, stream);
}

void Forget(uint64_t handle) {
  SpinLockHolder holder(&g_lock);
  for (Communicator& communicator : g_communicators) {
    if (handle > kGone && communicator.handle.load(std::memory_order_relaxed) == handle) {
      communicator.handle.store(kGone, std::memory_order_release);
    }
  }
}

}  // namespace

void DecodeNccl(const NcclArgs& args, CallRecord* record) {
  const Communicator* communicator = nullptr;
  if (record->status == 0) {
    communicator =
        FindOrAsk(reinterpret_cast<uint64_t>(args.comm), [&] { return ApiOf<NcclApi>(args.real).Ask(args.comm); });
  }
  CollectiveShape shape = {};
  shape.kind = args.kind;
  shape.data_type = NcclType(args.datatype);
  shape.captured = IsCaptured(args.stream);
  shape.reduction = args.op;
  shape.peer = args.peer >= 0 ? args.peer : args.root;
  shape.count = args.count;
  shape.bytes = args.count * TypeBits(shape.data_type) / 8;
  const void* send = args.sendbuff != nullptr ? args.sendbuff : args.buffer;
  const void* receive = args.recvbuff != nullptr ? args.recvbuff : args.buffer;
  Store(record, shape, communicator, send, receive, args.stream);
}

void DecodeNvshmem(const NvshmemArgs& args, CallRecord* record) {
  CollectiveShape shape = {};
  shape.kind = args.kind;
  shape.captured = IsCaptured(args.stream);
  shape.reduction = -1;
  shape.peer = args.peer >= 0 ? args.peer : args.root;
  shape.count = shape.bytes = args.bytes;
  Store(record, shape, nullptr, args.src, args.dst, args.stream);
}

void DecodeMpi(const MpiArgs& args, CallRecord* record) {
  const Communicator* communicator = nullptr;
  CollectiveShape shape = {};
  shape.kind = args.kind;
  shape.blocking = args.blocking;
  shape.reduction = -1;
  shape.peer = args.peer >= 0 ? args.peer : args.send_peer >= 0 ? args.send_peer : args.root;
  int64_t count = args.count != 0 ? args.count : args.send_count != 0 ? args.send_count : args.recv_count;
  shape.count = count > 0 ? static_cast<uint64_t>(count) : 0;
  // A handle that the library refused must not be queried: its error handler may end the program.
  if (record->status == 0) {
    const MpiApi& api = ApiOf<MpiApi>(args.real);
    communicator = FindOrAsk(static_cast<uint64_t>(args.comm), [&] { return api.Ask(args.comm); });
    int bytes = 0;
    int64_t type = args.datatype != 0 ? args.datatype : args.send_count != 0 ? args.send_type : args.recv_type;
    bool known = type != 0 && Query(api.type_size, type, &bytes);
    shape.bytes = known && bytes > 0 ? shape.count * static_cast<uint64_t>(bytes) : 0;
  }
  Store(record, shape, communicator, args.sendbuff != nullptr ? args.sendbuff : args.buffer,
        args.recvbuff != nullptr ? args.recvbuff : args.buffer, nullptr);
}

void TrackCommunicatorGone(const CommunicatorGoneArgs& args) { Forget(reinterpret_cast<uint64_t>(args.comm)); }

void TrackCommunicatorNew(const CommunicatorNewArgs& args) {
  auto handle = reinterpret_cast<const void*>(args.new_comm);
  if (args.status != 0 || handle == nullptr) return;
  // Open MPI's handles are addresses, MPICH's are ints.
  bool is_address = LibraryFunction(args.real, "ompi_mpi_comm_world") != nullptr;
  uint64_t value = 0;
  memcpy(&value, handle, is_address ? sizeof(void*) : sizeof(int32_t));
  Forget(value);
}

}  // namespace dlhook::inline decode
