// replay.py as text in the program, which so needs no file where it runs: see replay.cc.
  .section .rodata
  .globl dlhook_replay_py
dlhook_replay_py:
  .incbin DLHOOK_REPLAY_PY
  .byte 0
  .section .note.GNU-stack, "", %progbits
