"""with_rusage.py FILE PROGRAM ARGUMENTS: runs the program, and writes into FILE the kernel's counts for it and for the
children that it waited for, up to their end: [CPU nanoseconds, minor faults, major faults, voluntary switches,
involuntary switches]."""

import json
import os
import sys

child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    cpu_ns = round((usage.ru_utime + usage.ru_stime) * 1e9)
    json.dump([cpu_ns, usage.ru_minflt, usage.ru_majflt, usage.ru_nvcsw, usage.ru_nivcsw], file)
sys.exit(os.waitstatus_to_exitcode(status))
