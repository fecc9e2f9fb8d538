// A rank that is linked to an MPI: collectives and point to point, one of them refused.
#include "mpi.h"
#include "tell.h"

#define RANK "collective.communicator=1 collective.rank=3 collective.ranks=5 "
#define BLOCKING RANK "collective.blocking=true "

int main(int argc, char** argv) {
  static double buffer[4096];
  Handle request;
  QUIET(MPI_Init, &argc, &argv);
  DO(BLOCKING
     "collective.kind=ALL_REDUCE collective.bytes=400 collective.count=100 collective.reduction=-1 collective.peer=-1",
     MPI_Allreduce, buffer, buffer, 100, FLOAT, SUM, WORLD);
  DO(BLOCKING
     "collective.kind=BROADCAST collective.bytes=808 collective.count=101 collective.reduction=-1 collective.peer=2",
     MPI_Bcast, buffer, 101, DOUBLE, 2, WORLD);
  DO(BLOCKING
     "collective.kind=ALL_GATHER collective.bytes=408 collective.count=102 collective.reduction=-1 collective.peer=-1",
     MPI_Allgather, buffer, 102, FLOAT, buffer, 102, FLOAT, WORLD);
  DO(BLOCKING
     "collective.kind=SEND collective.bytes=412 collective.count=103 collective.reduction=-1 collective.peer=4",
     MPI_Send, buffer, 103, FLOAT, 4, 77, WORLD);
  DO(RANK "collective.kind=RECEIVE collective.bytes=832 collective.count=104 collective.reduction=-1 collective.peer=1",
     MPI_Irecv, buffer, 104, DOUBLE, 1, 78, WORLD, &request);
  DO_PLAIN(MPI_Wait, &request, NULL);
  FAILS(8,
        "collective.kind=BROADCAST collective.count=105 collective.reduction=-1 collective.peer=9 collective.rank=-1 "
        "collective.blocking=true",
        MPI_Bcast, buffer, 105, DOUBLE, 9, WORLD);
  DO(BLOCKING "collective.kind=BARRIER collective.reduction=-1 collective.peer=-1", MPI_Barrier, WORLD);
  QUIET(MPI_Finalize);
  return 0;
}
