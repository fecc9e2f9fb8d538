// A plugin whose Run makes a product from a frame of FRAME_BYTES bytes. Its copies differ only in that: the same code
// addresses, other unwind tables.
#include "tiny_blas.h"

__attribute__((used)) static void Multiply(void) {
  TinyGemm(3, 3, 3);
  __asm__ volatile("");  // no tail call
}

#define TEXT(number) #number
#define VALUE(macro) TEXT(macro)
__asm__(
    ".text\n.globl Run\n.type Run, @function\nRun:\n  .cfi_startproc\n"
    "  sub $" VALUE(FRAME_BYTES) ", %rsp\n  .cfi_adjust_cfa_offset " VALUE(FRAME_BYTES) "\n"
    "  call Multiply\n  xorps %xmm0, %xmm0\n"
    "  add $" VALUE(FRAME_BYTES) ", %rsp\n  .cfi_adjust_cfa_offset -" VALUE(FRAME_BYTES) "\n"
    "  ret\n  .cfi_endproc\n.size Run, .-Run\n");
