# compiled_code.py as a string.
        .section .rodata
        .globl  dlhook_compiled_code_text
        .hidden dlhook_compiled_code_text
dlhook_compiled_code_text:
        .incbin "preload/python/compiled_code.py"
        .byte   0
        .section .note.GNU-stack,"",@progbits
