# printf and __printf_chk: jump to the real function, registers and stack untouched, unless the text belongs to oneDNN's log:
# printf("%s", "onednn_verbose,…") (3.x), printf("onednn_verbose,…", …) (older, also "dnnl_verbose,…" and "mkldnn_verbose,…"),
# printf("%s,%s,%g\n", "dnnl_verbose,create:cache_miss", …) (1.1 to 2.1), or the rest of such a text (2.x prints its template in
# two parts; dlhook_line_continues of this thread is set then). x86-64 System V.
# r10 and r11 are free here: no argument of a C function is in them.

# Jumps to \no unless the string at \reg begins with "onednn_v", "dnnl_ver" or "mkldnn_v". Reads no byte after the first that
# differs.
.macro  expect reg, at, no, letters:vararg
        .set    place, \at
        .irp    letter, \letters
        cmpb    $\letter, place(\reg)
        jne     \no
        .set    place, place + 1
        .endr
.endm
.macro  check_prefix reg, yes, no
        cmpb    $'o', (\reg)
        jne     2f
        expect  \reg, 1, \no, 'n', 'e', 'd', 'n', 'n', '_', 'v'
        jmp     \yes
2:      cmpb    $'d', (\reg)
        jne     5f
        expect  \reg, 1, \no, 'n', 'n', 'l', '_', 'v', 'e', 'r'
        jmp     \yes
5:      expect  \reg, 0, \no, 'm', 'k', 'l', 'd', 'n', 'n', '_', 'v'
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
        .irp    reg, %rax, %rdi, %rsi, %rdx, %rcx, %r8, %r9
        pushq   \reg
        .cfi_adjust_cfa_offset 8
        .endr
        subq    $128, %rsp
        .cfi_adjust_cfa_offset 128
        .irpc   i, 01234567
        movups  %xmm\i, 16*\i(%rsp)
        .endr
        call    dlhook_init_printf
        .irpc   i, 01234567
        movups  16*\i(%rsp), %xmm\i
        .endr
        addq    $128, %rsp
        .cfi_adjust_cfa_offset -128
        .irp    reg, %r9, %r8, %rcx, %rdx, %rsi, %rdi, %rax
        popq    \reg
        .cfi_adjust_cfa_offset -8
        .endr
        .cfi_restore_state
        jmp     1b
        .cfi_endproc
        .size   \name, .-\name
.endm

        .text
        printf_stub printf, %rdi, %rsi, dlhook_real_printf, dlhook_tap_printf
        printf_stub __printf_chk, %rsi, %rdx, dlhook_real_printf_chk, dlhook_tap_printf_chk

        .section .note.GNU-stack,"",@progbits
