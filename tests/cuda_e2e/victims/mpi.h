// The parts of MPI used by victims and the fake library (fake_mpi.c): handles are pointers in Open MPI, ints in MPICH
// (-DMPICH).
#pragma once

#include <stdint.h>

#ifdef MPICH
typedef int Handle;
#define WORLD 0x44000000
#define FLOAT 0x4c00040a
#define DOUBLE 0x4c00080b
#define SUM 0x58000003
#else
typedef void* Handle;
extern char ompi_mpi_comm_world[], ompi_mpi_float[], ompi_mpi_double[], ompi_mpi_op_sum[];
#define WORLD ((Handle)ompi_mpi_comm_world)
#define FLOAT ((Handle)ompi_mpi_float)
#define DOUBLE ((Handle)ompi_mpi_double)
#define SUM ((Handle)ompi_mpi_op_sum)
#endif

int MPI_Init(int* argc, char*** argv);
int MPI_Finalize(void);
int MPI_Allreduce(const void* from, void* to, int count, Handle type, Handle op, Handle comm);
int MPI_Bcast(void* buffer, int count, Handle type, int root, Handle comm);
int MPI_Allgather(const void* from, int count, Handle type, void* to, int count_to, Handle type_to, Handle comm);
int MPI_Send(const void* from, int count, Handle type, int peer, int tag, Handle comm);
int MPI_Irecv(void* to, int count, Handle type, int peer, int tag, Handle comm, Handle* request);
int MPI_Wait(Handle* request, void* status);
int MPI_Barrier(Handle comm);
