# at::RecordFunction::before: stores which RecordFunction begins with which sequence number on this thread and jumps to the real
# function, arguments untouched. PyTorch from 2.9 on has one, whose name is a std::variant on the stack; earlier ones have three,
# whose name is in a register (of std::string's two ABIs each build has one). x86-64 System V. rax, r10 and r11 are free here.

# \number: its place in the tables of record_function_hooks.cc. \sequence: the register with the sequence number.
.macro  before_stub name, number, sequence
        .globl  \name
        .type   \name, @function
        .p2align 4
\name:
        .cfi_startproc
        endbr64
        movq    dlhook_torch_note@gottpoff(%rip), %r10
        movq    %rdi, %fs:(%r10)
        movq    \sequence, %fs:8(%r10)
        movq    dlhook_real_torch_before+8*\number(%rip), %r11
        testq   %r11, %r11
        je      1f
        jmp     *%r11
1:      .cfi_remember_state
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        pushq   %rdx
        .cfi_adjust_cfa_offset 8
        movq    24(%rsp), %rdi
        movl    $\number, %esi
        call    dlhook_find_torch_before
        movq    %rax, %r11
        popq    %rdx
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_restore_state
        jmp     *%r11
        .cfi_endproc
        .size   \name, .-\name
.endm

        .text
# before(std::variant<std::string_view, std::reference_wrapper<const c10::FunctionSchema>>, int64_t)
        before_stub _ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17reference_wrapperIKN3c1014FunctionSchemaEEEEl, 0, %rsi
# before(std::reference_wrapper<const c10::FunctionSchema>, int64_t), before(const char*, int64_t), before(std::string, int64_t)
        before_stub _ZN2at14RecordFunction6beforeESt17reference_wrapperIKN3c1014FunctionSchemaEEl, 1, %rdx
        before_stub _ZN2at14RecordFunction6beforeEPKcl, 2, %rdx
        before_stub _ZN2at14RecordFunction6beforeENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEl, 3, %rdx
        before_stub _ZN2at14RecordFunction6beforeESsl, 4, %rdx

        .section .note.GNU-stack,"",@progbits
