// docs/glossary.md: see explain.cc.
  .section .rodata
  .globl dlhook_glossary
  .globl dlhook_glossary_end
dlhook_glossary:
  .incbin DLHOOK_GLOSSARY
dlhook_glossary_end:
  .section .note.GNU-stack, "", %progbits
