# compiled_calls.py with compiled_code.py, and compiled_hook.py, as strings.
        .section .rodata
        .globl  dlhook_compiled_code_text
        .hidden dlhook_compiled_code_text
dlhook_compiled_code_text:
        .incbin "preload/python/compiled_calls.py"
        .incbin "preload/python/compiled_code.py"
        .byte   0
        .globl  dlhook_compiled_hook_text
        .hidden dlhook_compiled_hook_text
dlhook_compiled_hook_text:
        .incbin "preload/python/compiled_hook.py"
        .byte   0
        .section .note.GNU-stack,"",@progbits
