// parquet.py as text in the program, which so needs no file where it runs: see parquet.cc.
  .section .rodata
  .globl dlhook_parquet_py
dlhook_parquet_py:
  .incbin DLHOOK_PARQUET_PY
  .byte 0
  .section .note.GNU-stack, "", %progbits
