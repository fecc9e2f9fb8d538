// Collectives and point-to-point messages of NCCL, NVSHMEM and MPI -> CollectiveShape.
// Thread: any application thread, after the real function has returned.
// The members of the *Args structs are the parameter names of preload/api/{nccl,nvshmem,mpi}.api.
#pragma once

#include "preload/format/record.h"

namespace dlhook::inline decode {

// Needs kCollectiveShapeWords and 3 addresses: send buffer, receive buffer, stream.
struct NcclArgs {
  CollectiveKind kind = CollectiveKind::kUnknown;
  const void* sendbuff = nullptr;
  const void* recvbuff = nullptr;
  const void* buffer = nullptr;  // for in-place forms
  uint64_t count = 0;
  int32_t datatype = -1;
  int32_t op = -1;
  int32_t root = -1;
  int32_t peer = -1;
  const void* comm = nullptr;
  const void* stream = nullptr;
  const void* real = nullptr;
};
void DecodeNccl(const NcclArgs& args, CallRecord* record);

// Sizes in bytes; the team is not queried.
struct NvshmemArgs {
  CollectiveKind kind = CollectiveKind::kUnknown;
  const void* dst = nullptr;
  const void* src = nullptr;
  uint64_t bytes = 0;
  int32_t peer = -1;
  int32_t root = -1;
  const void* stream = nullptr;
};
void DecodeNvshmem(const NvshmemArgs& args, CallRecord* record);

struct MpiArgs {
  CollectiveKind kind = CollectiveKind::kUnknown;
  bool blocking = true;
  const void* sendbuff = nullptr;
  const void* recvbuff = nullptr;
  const void* buffer = nullptr;
  int64_t count = 0;
  int64_t send_count = 0;
  int64_t recv_count = 0;
  int64_t datatype = 0;  // MPI_Datatype: a pointer (Open MPI) or an int (MPICH)
  int64_t send_type = 0;
  int64_t recv_type = 0;
  int32_t root = -1;
  int32_t peer = -1;
  int32_t send_peer = -1;
  int64_t comm = 0;  // MPI_Comm, likewise
  const void* real = nullptr;
};
void DecodeMpi(const MpiArgs& args, CallRecord* record);

// A communicator was destroyed: its address may be reused.
struct CommunicatorGoneArgs {
  const void* comm = nullptr;
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackCommunicatorGone(const CommunicatorGoneArgs& args);

// A new MPI communicator may have the handle of a freed one (after MPI_Comm_free its handle can't be read any more).
struct CommunicatorNewArgs {
  int64_t new_comm = 0;  // MPI_Comm*
  int32_t status = 0;
  const void* real = nullptr;
};
void TrackCommunicatorNew(const CommunicatorNewArgs& args);

}  // namespace dlhook::inline decode
