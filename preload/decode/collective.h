// Collectives and point-to-point messages of NCCL, NVSHMEM and MPI -> CollectiveShape.
// Thread: any application thread, after the real function has returned.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

// Needs kCollectiveShapeWords and 3 addresses: send buffer, receive buffer, stream.
void DecodeNccl(const NcclArgs& args, CallRecord* record);
void DecodeNvshmem(const NvshmemArgs& args, CallRecord* record);
void DecodeMpi(const MpiArgs& args, CallRecord* record);

// A communicator was destroyed: its address may be reused.
void TrackCommunicatorGone(const CommunicatorGoneArgs& args);

// A new MPI communicator may have the handle of a freed one (after MPI_Comm_free its handle can't be read any more).
void TrackCommunicatorNew(const CommunicatorNewArgs& args);

}  // namespace dlhook::inline decode
