#include "preload/decode/matrix.h"

#include <new>

#include "preload/abi/arguments.h"

namespace dlhook::inline decode {

void DecodeMatrix(const MatrixArgs& args, CallRecord* record) {
  new (record->shape()) MatrixShape{
      args.kind,
      args.type,
      args.order == 'R',
      OneOf<'\0', 'L', 'R'>(args.side),
      OneOf<'\0', 'U', 'L'>(args.uplo),
      OneOf<'\0', 'N', 'T', 'C', 'R'>(args.trans),
      OneOf<'\0', 'N', 'U'>(args.diag),
      0,
      args.m,
      args.n,
      args.k,
      args.lda,
      args.ldb,
      args.ldc,
      args.batch,
  };
  uint64_t* addresses = record->addresses();
  addresses[0] = Address(args.a);
  addresses[1] = Address(args.b);
  addresses[2] = Address(args.c);
}

}  // namespace dlhook::inline decode
