"""dlhook top on two ranks with a GPU of which one does not come to a collective operation."""

import os
import sys

import cuda_e2e
import e2e

PROGRAM = os.path.join(cuda_e2e.HERE, "victims", "data_parallel.py")
BOTH = 'RANK=0 DLHOOK_FAKE_SLOW=1e7 "$0" -B "$1" 0 & RANK=1 "$0" -B "$1" 1 3 & wait'


class Top(cuda_e2e.Case):
    def test_hangs(self):
        env = e2e.clean_environment(DLHOOK_FAKE_WAITS="1", LD_LIBRARY_PATH=os.path.join(cuda_e2e.FAKES, "cuda13"))
        text = self.hanging(["sh", "-c", BOTH, sys.executable, PROGRAM], "in cudaDeviceSynchronize for", env=env)
        self.assertRegex(text, r"rank 0, process \d+, thread \d+ sleeps.*: in cudaDeviceSynchronize for [\d.]+ s, at data_parallel\.py:\d+"
                               r"\. Stack: .*cudaDeviceSynchronize")
        self.assertRegex(text, r"rank 0, process \d+ has returned from collective operation 5, ncclAllReduce")
        self.assertRegex(text, r"rank 1, process \d+ has returned from collective operation 3, ncclAllReduce")


if __name__ == "__main__":
    cuda_e2e.main()
