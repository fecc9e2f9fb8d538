// libnccl: communicators of any number of ranks in which each process is alone: it receives what it sends. So DDP runs,
// but its replicas only agree because they begin alike and see the same data.
#include <cstring>

#include "fake.h"

namespace {

constexpr int kSuccess = 0;

struct Communicator {
  int ranks = 1, rank = 0, device = 0;
};

Communicator* Of(void* communicator) { return static_cast<Communicator*>(communicator); }

struct UniqueId {
  char bytes[128];
};

size_t ElementBytes(int type) {
  switch (type) {
    case 0:
    case 1:
    case 10:
    case 11:
      return 1;  // int8, uint8, fp8
    case 6:
    case 9:
      return 2;  // half, bfloat16
    case 4:
    case 5:
    case 8:
      return 8;  // 64-bit integers, double
    default:
      return 4;
  }
}

constexpr char kAllReduce[] = "_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
constexpr char kBroadcast[] = "_Z31ncclDevKernel_Broadcast_RING_LL24ncclDevKernelArgsStorageILm4096EE";
constexpr char kAllGather[] = "_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE";
constexpr char kReduceScatter[] = "_Z43ncclDevKernel_ReduceScatter_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE";
constexpr char kSendReceive[] = "_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE";

int Move(const char* kernel, const void* from, void* to, size_t count, int type, void* stream) {
  if (from != to)
    fake::Collective(stream, to, from, count * ElementBytes(type), kernel);
  else
    fake::Work(stream, fake::Slowed(5000), kernel);
  return kSuccess;
}

}  // namespace

FAKE(int, ncclGetVersion, int* version) {
  *version = FAKE_NCCL_VERSION;
  return kSuccess;
}

FAKE(int, ncclGetUniqueId, UniqueId* id) {
  memset(id, 0, sizeof *id);
  strcpy(id->bytes, "dlhook fake NCCL");
  return kSuccess;
}

FAKE(int, ncclCommInitRankConfig, void** out, int ranks, UniqueId, int rank, void*) {
  auto* communicator = fake::New<Communicator>();
  communicator->ranks = ranks;
  communicator->rank = rank;
  communicator->device = fake::CurrentDevice();
  *out = communicator;
  return kSuccess;
}

FAKE(int, ncclCommInitRank, void** out, int ranks, UniqueId id, int rank) {
  return behave_ncclCommInitRankConfig(out, ranks, id, rank, nullptr);
}

FAKE(int, ncclCommInitRankScalable, void** out, int ranks, int rank, int, UniqueId* ids, void* config) {
  return behave_ncclCommInitRankConfig(out, ranks, ids[0], rank, config);
}

FAKE(int, ncclCommInitAll, void** out, int devices, const int*) {
  for (int i = 0; i < devices; ++i) behave_ncclCommInitRankConfig(&out[i], devices, UniqueId{}, i, nullptr);
  return kSuccess;
}

FAKE(int, ncclCommSplit, void* communicator, int, int, void** out, void*) {
  return behave_ncclCommInitRankConfig(out, Of(communicator)->ranks, UniqueId{}, Of(communicator)->rank, nullptr);
}

FAKE(int, ncclCommDestroy, void* communicator) {
  fake::Delete(Of(communicator));
  return kSuccess;
}

FAKE(int, ncclCommAbort, void* communicator) { return behave_ncclCommDestroy(communicator); }

// Defined by a program that wants to do what the genuine library does in these two: open a range of NVTX.
extern "C" __attribute__((weak)) void FakeNcclIsAsked();

FAKE(int, ncclCommCount, void* communicator, int* ranks) {
  if (FakeNcclIsAsked != nullptr) FakeNcclIsAsked();
  *ranks = Of(communicator)->ranks;
  return kSuccess;
}

FAKE(int, ncclCommUserRank, void* communicator, int* rank) {
  if (FakeNcclIsAsked != nullptr) FakeNcclIsAsked();
  *rank = Of(communicator)->rank;
  return kSuccess;
}

FAKE(int, ncclCommCuDevice, void* communicator, int* device) {
  *device = Of(communicator)->device;
  return kSuccess;
}

FAKE(int, ncclCommGetAsyncError, void*, int* error) {
  *error = kSuccess;
  return kSuccess;
}

FAKE(const char*, ncclGetErrorString, int error) {
  return error == kSuccess ? "no error" : "an error of the fake NCCL";
}
FAKE(const char*, ncclGetLastError, void*) { return ""; }

FAKE(int, ncclAllReduce, const void* from, void* to, size_t count, int type, int, void*, void* stream) {
  return Move(kAllReduce, from, to, count, type, stream);
}

FAKE(int, ncclReduce, const void* from, void* to, size_t count, int type, int, int root, void* communicator,
     void* stream) {
  return Of(communicator)->rank == root ? Move(kAllReduce, from, to, count, type, stream) : kSuccess;
}

FAKE(int, ncclBroadcast, const void* from, void* to, size_t count, int type, int, void*, void* stream) {
  return Move(kBroadcast, from, to, count, type, stream);
}

FAKE(int, ncclBcast, void* buffer, size_t count, int type, int, void*, void* stream) {
  return Move(kBroadcast, buffer, buffer, count, type, stream);
}

FAKE(int, ncclAllGather, const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  const size_t bytes = count * ElementBytes(type);
  for (int rank = 0; rank < Of(communicator)->ranks; ++rank) {
    char* place = static_cast<char*>(to) + static_cast<size_t>(rank) * bytes;
    if (place != from) fake::Collective(stream, place, from, bytes, kAllGather);
  }
  return kSuccess;
}

FAKE(int, ncclReduceScatter, const void* from, void* to, size_t count, int type, int, void* communicator,
     void* stream) {
  const size_t offset = static_cast<size_t>(Of(communicator)->rank) * count * ElementBytes(type);
  return Move(kReduceScatter, static_cast<const char*>(from) + offset, to, count, type, stream);
}

FAKE(int, ncclAlltoAll, const void* from, void* to, size_t count, int type, void* communicator, void* stream) {
  return Move(kSendReceive, from, to, count * static_cast<size_t>(Of(communicator)->ranks), type, stream);
}

// With a configuration of the call.
FAKE(int, ncclAllReduceConfig, const void* from, void* to, size_t count, int type, int operation, void* communicator,
     void* stream, const void*) {
  return behave_ncclAllReduce(from, to, count, type, operation, communicator, stream);
}

FAKE(int, ncclAllGatherConfig, const void* from, void* to, size_t count, int type, void* communicator, void* stream,
     const void*) {
  return behave_ncclAllGather(from, to, count, type, communicator, stream);
}

FAKE(int, ncclMemAlloc, void** out, size_t bytes) {
  *out = fake::AllocateDevice(fake::CurrentDevice(), bytes);
  return *out != nullptr ? kSuccess : 1;
}

FAKE(int, ncclMemFree, void* memory) { return fake::Free(memory) ? kSuccess : 4; }

FAKE(int, ncclRedOpCreatePreMulSum, int* op, void*, int, int, void*) {
  *op = 5;
  return kSuccess;
}
