// docs/glossary.md: see explain.cc; docs/skill.md: see skill.cc.
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
  .section .note.GNU-stack, "", %progbits
