# musl's loader takes a preloaded library that it can't relocate, and ends the program with its errors. One that defines these two
# names it takes for a C library, and goes on without it. In the library that is linked they are hidden
# (scripts/hide_from_glibc.py), which glibc's loader heeds and musl's does not.
        .globl  stdin, __libc_start_main
        .type   stdin, @object
        .type   __libc_start_main, @object
        .section .rodata
stdin:
__libc_start_main:
        .quad   0
        .size   stdin, 8
        .size   __libc_start_main, 8

# An older glibc's loader says at once which version is missing.
        .symver dlhook_least_glibc, closefrom@GLIBC_2.34
        .section .data.rel.ro, "aw"
        .quad   dlhook_least_glibc

        .section .note.GNU-stack,"",@progbits
