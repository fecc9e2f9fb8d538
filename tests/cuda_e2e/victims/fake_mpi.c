// An MPI with five ranks, of which this process is the fourth and the others do not exist: it does nothing.
#include "mpi.h"

#ifndef MPICH
char ompi_mpi_comm_world[64], ompi_mpi_float[64], ompi_mpi_double[64], ompi_mpi_op_sum[64];
#endif

int PMPI_Comm_rank(Handle comm, int* rank) { return *rank = 3, comm != WORLD; }
int PMPI_Comm_size(Handle comm, int* size) { return *size = 5, comm != WORLD; }
int PMPI_Type_size(Handle type, int* bytes) { return *bytes = type == FLOAT ? 4 : 8, 0; }
int MPI_Init(int* argc, char*** argv) { return 0; }
int MPI_Finalize(void) { return 0; }
int MPI_Allreduce(const void* from, void* to, int count, Handle type, Handle op, Handle comm) { return 0; }
int MPI_Bcast(void* buffer, int count, Handle type, int root, Handle comm) { return root > 4 ? 8 : 0; }
int MPI_Allgather(const void* from, int count, Handle type, void* to, int count_to, Handle type_to, Handle comm) {
  return 0;
}
int MPI_Send(const void* from, int count, Handle type, int peer, int tag, Handle comm) { return 0; }
int MPI_Irecv(void* to, int count, Handle type, int peer, int tag, Handle comm, Handle* request) {
  return *request = 0, 0;
}
int MPI_Wait(Handle* request, void* status) { return 0; }
int MPI_Barrier(Handle comm) { return 0; }
