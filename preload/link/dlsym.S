# dlsym and the thunks. x86-64 System V.
#
# dlsym jumps to glibc's with the caller's return address still on the stack, so that RTLD_NEXT and RTLD_DEFAULT mean what
# they mean for the caller; only look-ups of hooked names are answered here.
        .text
        .globl  dlsym
        .type   dlsym, @function
        .p2align 4
dlsym:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        movq    16(%rsp), %rdx
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        call    dlhook_dlsym_answer
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        je      1f
        movq    %rdx, %rax
        ret
1:      jmp     *dlhook_real_dlsym(%rip)
        .cfi_endproc
        .size   dlsym, .-dlsym

# Thunk i: dlhook_real_from_thunk = table[i].real; goto table[i].wrapper. Touches r10 and r11 only (no argument of a C
# function is in them). kThunks and kThunkBytes of dlsym.cc.
        .hidden dlhook_thunks
        .globl  dlhook_thunks
        .hidden dlhook_thunk_table
        .globl  dlhook_thunk_table
        .p2align 5
dlhook_thunks:
        .set    offset, 0
        .rept   2048
        .p2align 5
        endbr64
        movq    dlhook_real_from_thunk@gottpoff(%rip), %r10
        movq    dlhook_thunk_table+offset(%rip), %r11
        movq    %r11, %fs:(%r10)
        jmp     *dlhook_thunk_table+offset+8(%rip)
        .set    offset, offset+16
        .endr

        .bss
        .p2align 4
        .type   dlhook_thunk_table, @object
dlhook_thunk_table:
        .zero   2048*16
        .size   dlhook_thunk_table, .-dlhook_thunk_table

        .section .note.GNU-stack,"",@progbits
