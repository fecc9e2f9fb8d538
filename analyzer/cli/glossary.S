// docs/glossary.md: see explain.cc; docs/skill.md: see man.cc; whatif/replay.py: see replay.cc.
  .section .rodata
  .globl dlhook_glossary
  .globl dlhook_glossary_end
dlhook_glossary:
  .incbin DLHOOK_GLOSSARY
dlhook_glossary_end:
  .globl dlhook_skill
  .globl dlhook_skill_end
dlhook_skill:
  .incbin DLHOOK_SKILL
dlhook_skill_end:
  .globl dlhook_replay_py
dlhook_replay_py:
  .incbin DLHOOK_REPLAY
  .byte 0
  .section .note.GNU-stack, "", %progbits
