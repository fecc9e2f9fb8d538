// NCCL as in a data-parallel trainer: two ranks of one process, a group, point to point; then a communicator at the
// address of a destroyed one.
#include "tell.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

// What dlhook causes by its questions to the library is neither recorded nor lost.
void FakeNcclIsAsked(void) {
  nvtxRangePushA("asked");
  nvtxRangePop();
}
#endif

typedef struct {
  char bytes[128];
} UniqueId;

static int (*cudaMalloc)(void** out, size_t bytes);
static int (*ncclGetUniqueId)(UniqueId* id);
static int (*ncclCommInitRank)(void** comm, int ranks, UniqueId id, int rank);
static int (*ncclCommDestroy)(void* comm);
static int (*ncclGroupStart)(void);
static int (*ncclGroupEnd)(void);
static int (*ncclAllReduce)(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream);
static int (*ncclBroadcast)(const void* from, void* to, size_t count, int type, int root, void* comm, void* stream);
static int (*ncclAllGather)(const void* from, void* to, size_t count, int type, void* comm, void* stream);
static int (*ncclReduceScatter)(const void* from, void* to, size_t count, int type, int op, void* comm, void* stream);
static int (*ncclSend)(const void* from, size_t count, int type, int peer, void* comm, void* stream);
static int (*ncclRecv)(void* to, size_t count, int type, int peer, void* comm, void* stream);

int main(void) {
  UniqueId id;
  void *device, *comms[2], *library = Open("libcudart.so.13"), *nccl = Open("libnccl.so.2");
  LOAD(library, cudaMalloc);
  LOAD(nccl, ncclGetUniqueId);
  LOAD(nccl, ncclCommInitRank);
  LOAD(nccl, ncclCommDestroy);
  LOAD(nccl, ncclGroupStart);
  LOAD(nccl, ncclGroupEnd);
  LOAD(nccl, ncclAllReduce);
  LOAD(nccl, ncclBroadcast);
  LOAD(nccl, ncclAllGather);
  LOAD(nccl, ncclReduceScatter);
  LOAD(nccl, ncclSend);
  LOAD(nccl, ncclRecv);
  DO_PLAIN(cudaMalloc, &device, 1 << 20);
  DO_PLAIN(ncclGetUniqueId, &id);
  for (int rank = 0; rank < 2; ++rank) DO_PLAIN(ncclCommInitRank, &comms[rank], 2, id, rank);
  DO_PLAIN(ncclGroupStart);
  for (int i = 0; i < 2; ++i) {
    DO(Facts("collective.kind=ALL_REDUCE collective.bytes=4000 collective.count=1000 collective.data_type=F32 "
             "collective.reduction=4 "
             "collective.peer=-1 collective.communicator=%d collective.rank=%d collective.ranks=2",
             i + 1, i),
       ncclAllReduce, device, device, 1000, 7, 4, comms[i], NULL);
  }
  DO_PLAIN(ncclGroupEnd);
  DO("collective.kind=BROADCAST collective.bytes=20 collective.count=10 collective.data_type=BF16 "
     "collective.reduction=-1 collective.peer=1 "
     "collective.communicator=2 collective.rank=1 collective.ranks=2",
     ncclBroadcast, device, device, 10, 9, 1, comms[1], NULL);
  DO("collective.kind=ALL_GATHER collective.bytes=88 collective.count=11 collective.data_type=F64 "
     "collective.reduction=-1 collective.peer=-1 "
     "collective.communicator=1 collective.ranks=2",
     ncclAllGather, device, (char*)device + 4096, 11, 8, comms[0], NULL);
  DO("collective.kind=REDUCE_SCATTER collective.bytes=24 collective.count=12 collective.data_type=F16 "
     "collective.peer=-1 collective.communicator=1 "
     "collective.ranks=2",
     ncclReduceScatter, device, device, 12, 6, 0, comms[0], NULL);
  DO("collective.kind=SEND collective.bytes=13 collective.count=13 collective.data_type=S8 collective.reduction=-1 "
     "collective.peer=1 "
     "collective.communicator=1 collective.ranks=2",
     ncclSend, device, 13, 0, 1, comms[0], NULL);
  DO("collective.kind=RECEIVE collective.bytes=13 collective.count=13 collective.data_type=S8 collective.reduction=-1 "
     "collective.communicator=2 "
     "collective.rank=1 collective.ranks=2",
     ncclRecv, device, 13, 0, 0, comms[1], NULL);
  DO_PLAIN(ncclCommDestroy, comms[0]);
  void* again;
  DO_PLAIN(ncclCommInitRank, &again, 3, id, 2);
  DO("collective.kind=SEND collective.bytes=14 collective.count=14 collective.data_type=S8 collective.reduction=-1 "
     "collective.communicator=3 "
     "collective.rank=2 collective.ranks=3",
     ncclSend, device, 14, 0, 0, again, NULL);
  printf("same address %d\n", again == comms[0]);
  return 0;
}
