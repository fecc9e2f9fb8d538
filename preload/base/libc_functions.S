# The C library's functions that the shim calls, bound to the C library itself: hidden names that replace the global ones and
# lead, once the shim is relocated, to libc.so.6 (libc_functions.cc), whatever precedes it in the search order. A sanitizer's
# runtime, another preloaded library or the program may have its own strcmp, open or pthread_create: it may not be initialized
# when the shim is first called, would see accesses and threads that are not the program's, or act on them.
#
# A function that is missing here is called through the global scope: tests/preload_e2e/test_sanitizers.py finds it.
        .macro  bind symbol:req, name:req
        .hidden \symbol
        .globl  \symbol
        .type   \symbol, @gnu_indirect_function
        .p2align 4
\symbol:
        .cfi_startproc
        endbr64
        leaq    .Lname_\name(%rip), %rdi
        jmp     dlhook_find_libc_function
        .cfi_endproc
        .size   \symbol, .-\symbol
        .pushsection .rodata.str1.1,"aMS",@progbits,1
.Lname_\name:
        .asciz  "\name"
        .popsection
        .endm

        .macro  libc_functions name:req, more:vararg
        bind    \name, \name
        .ifnb   \more
        libc_functions \more
        .endif
        .endm

        .text
# Strings
        libc_functions memchr, memcmp, memcpy, memmem, memmove, memrchr, memset, strchr, strcmp, strcpy, strcspn
        libc_functions strerror, strlen, strncasecmp, strncmp, strnlen, strrchr, strspn, strstr, strtok_r, tolower
        libc_functions __isoc99_sscanf, __vprintf_chk, snprintf, strtod, strtol, strtoll, strtoul, strtoull, vsnprintf
# Files
        libc_functions access, close, dprintf, fallocate, fchmod, fcntl, flock, fputs, fstat, fstatat, fstatvfs, ftruncate, getcwd, ioctl
        libc_functions lseek, mkdirat, open, openat, pread, pwrite, read, readlink, readlinkat, renameat2, stat, symlinkat, unlinkat
        libc_functions write
# Processes and memory
        libc_functions __errno_location, __register_atfork, getauxval, geteuid, gethostname, getpgrp, getpid, getppid, getrlimit, getrusage, getsid
        libc_functions gettid, getuid, kill, madvise, mprotect, munlock, munmap, on_exit, prctl, process_vm_readv, setenv, syscall, sysconf
        bind    dlhook_libc__exit, _exit
# Threads, signals, time
        libc_functions clock_gettime, clock_nanosleep, pthread_attr_destroy, pthread_attr_init, pthread_attr_setdetachstate
        libc_functions pthread_attr_getstacksize, pthread_attr_setstack, pthread_attr_setstacksize, pthread_detach, pthread_join, pthread_key_create, pthread_once, pthread_self
        libc_functions pthread_setcancelstate, pthread_setspecific, pthread_sigmask, pthread_clockjoin_np, sched_yield, sigaltstack
        libc_functions sigaddset, sigdelset, sigfillset, sigismember
        bind    dlhook_libc_pthread_create, pthread_create
        bind    dlhook_libc_sigaction, sigaction
# The loader; those that replace the pending error are only for link/ (libc_functions.h)
        libc_functions dl_iterate_phdr, dlerror
        bind    dlhook_libc_dladdr1, dladdr1
        bind    dlhook_libc_dlclose, dlclose
        bind    dlhook_libc_dlopen, dlopen
        bind    dlhook_libc_dlvsym, dlvsym

        .section .note.GNU-stack,"",@progbits
