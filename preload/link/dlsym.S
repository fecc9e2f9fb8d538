# dlsym, dlvsym and the thunks. x86-64 System V.
#
# dlsym and dlvsym jump to glibc's with the caller's return address still on the stack, so that RTLD_NEXT and RTLD_DEFAULT
# have the caller's meaning; only look-ups of hooked names are answered here.
        .macro  look_up name, real, version:vararg
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        \version
        movq    24(%rsp), %rdx
        call    dlhook_dlsym_answer
        testq   %rax, %rax
        je      1f
        movq    %rdx, %rax
        addq    $24, %rsp
        .cfi_adjust_cfa_offset -24
        ret
        .cfi_adjust_cfa_offset 24
1:      popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        jmp     *\real(%rip)
        .cfi_endproc
        .size   \name, .-\name
        .endm

        .text
        look_up dlsym, dlhook_real_dlsym, xorl %ecx, %ecx
        look_up dlvsym, dlhook_real_dlvsym, movq %rdx, %rcx

# Thunk i: r10 = table[i].real; goto table[i].entry (base/entry.h). kThunks and kThunkBytes of dlsym.cc.
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
        movq    dlhook_thunk_table+offset(%rip), %r10
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
