# printf and __printf_chk: jump to the real function, registers and stack untouched, unless the text belongs to oneDNN's log:
# printf("%s", "onednn_verbose,…") (3.x), printf("onednn_verbose,…", …) (older, also "dnnl_verbose,…" and "mkldnn_verbose,…"),
# printf("%s,%s,%g\n", "dnnl_verbose,create:cache_miss", …) (1.1 to 2.1), or the rest of such a text (2.x prints its template in
# two parts; dlhook_line_continues of this thread is set then). x86-64 System V.
# r10 and r11 are free here: no argument of a C function is in them.

# Jumps to \no unless the string at \reg begins with "onednn_v", "dnnl_ver" or "mkldnn_v". Reads no byte after the first that
# differs.
.macro  expect reg, at, letter, no
        cmpb    $\letter, \at(\reg)
        jne     \no
.endm
.macro  check_prefix reg, yes, no
        cmpb    $'o', (\reg)
        jne     2f
        expect  \reg, 1, 'n', \no
        expect  \reg, 2, 'e', \no
        expect  \reg, 3, 'd', \no
        expect  \reg, 4, 'n', \no
        expect  \reg, 5, 'n', \no
        expect  \reg, 6, '_', \no
        expect  \reg, 7, 'v', \no
        jmp     \yes
2:      cmpb    $'d', (\reg)
        jne     5f
        expect  \reg, 1, 'n', \no
        expect  \reg, 2, 'n', \no
        expect  \reg, 3, 'l', \no
        expect  \reg, 4, '_', \no
        expect  \reg, 5, 'v', \no
        expect  \reg, 6, 'e', \no
        expect  \reg, 7, 'r', \no
        jmp     \yes
5:      expect  \reg, 0, 'm', \no
        expect  \reg, 1, 'k', \no
        expect  \reg, 2, 'l', \no
        expect  \reg, 3, 'd', \no
        expect  \reg, 4, 'n', \no
        expect  \reg, 5, 'n', \no
        expect  \reg, 6, '_', \no
        expect  \reg, 7, 'v', \no
        jmp     \yes
.endm

# \name: an exported variadic function whose format is in \format and whose first argument is in \first.
.macro  printf_stub name, format, first, real, tap
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        cmpq    $0, \real(%rip)
        je      9f
1:      movq    dlhook_line_continues@gottpoff(%rip), %r10
        cmpb    $0, %fs:(%r10)
        jne     7f
        cmpb    $'%', (\format)
        jne     3f
        cmpb    $'s', 1(\format)
        jne     8f
        testq   \first, \first
        je      8f
        cmpb    $0, 2(\format)
        je      4f
        cmpb    $',', 2(\format)
        je      4f
        cmpb    $'\n', 2(\format)
        jne     8f
4:      check_prefix \first, 7f, 8f
3:      check_prefix \format, 7f, 8f
7:      jmp     \tap
8:      jmp     *\real(%rip)
# First use: every register that may contain an argument is saved across the look-up.
9:      .cfi_remember_state
        pushq   %rax
        .cfi_adjust_cfa_offset 8
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        pushq   %rcx
        .cfi_adjust_cfa_offset 8
        pushq   %r8
        .cfi_adjust_cfa_offset 8
        pushq   %r9
        .cfi_adjust_cfa_offset 8
        subq    $128, %rsp
        .cfi_adjust_cfa_offset 128
        movups  %xmm0, (%rsp)
        movups  %xmm1, 16(%rsp)
        movups  %xmm2, 32(%rsp)
        movups  %xmm3, 48(%rsp)
        movups  %xmm4, 64(%rsp)
        movups  %xmm5, 80(%rsp)
        movups  %xmm6, 96(%rsp)
        movups  %xmm7, 112(%rsp)
        call    dlhook_init_printf
        movups  (%rsp), %xmm0
        movups  16(%rsp), %xmm1
        movups  32(%rsp), %xmm2
        movups  48(%rsp), %xmm3
        movups  64(%rsp), %xmm4
        movups  80(%rsp), %xmm5
        movups  96(%rsp), %xmm6
        movups  112(%rsp), %xmm7
        addq    $128, %rsp
        .cfi_adjust_cfa_offset -128
        popq    %r9
        .cfi_adjust_cfa_offset -8
        popq    %r8
        .cfi_adjust_cfa_offset -8
        popq    %rcx
        .cfi_adjust_cfa_offset -8
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        popq    %rax
        .cfi_restore_state
        jmp     1b
        .cfi_endproc
        .size   \name, .-\name
.endm

        .text
        printf_stub printf, %rdi, %rsi, dlhook_real_printf, dlhook_tap_printf
        printf_stub __printf_chk, %rsi, %rdx, dlhook_real_printf_chk, dlhook_tap_printf_chk

        .section .note.GNU-stack,"",@progbits
