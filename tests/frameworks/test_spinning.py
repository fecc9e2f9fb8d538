"""Threads that wait actively, in real PyTorch. Runs alone: beside other programs little is left of two processors to spin on."""

import os
import re

from frameworks import e2e
from test_findings import FindingsCase


class Spinning(FindingsCase):
    def wanted(self):
        """By how many threads the processors were wanted while the victim ran; 0: it did not wait for one."""
        run = e2e.Run(os.path.join(self.folder, "spinning-threads-victim"))
        told = re.search(r"([\d.]+) threads of this program and ([\d.]+) of others", str(run.report("--table", "findings")))
        return float(told[1]) + float(told[2]) if told else 0

    def test_threads_that_spin(self):
        self.assertEqual(self.findings("spinning-threads", "spinning-threads", "passive", OMP_WAIT_POLICY="passive"), [])
        findings = self.findings("spinning-threads", "spinning-threads", "victim", OMP_WAIT_POLICY="active")
        # Its two threads and the programs that it starts are one more than there are processors. Beside still others nearly each of
        # its operations lasts until they let its threads run: how little work that was, cannot be told.
        if not findings and self.wanted() > os.cpu_count() + 1.5:
            self.skipTest("other programs use the processors")
        self.assertEqual(len(findings), 1)
        self.assertGreaterEqual(findings[0]["gain_percent"], 20)
        self.assertIn("OMP_WAIT_POLICY=passive", findings[0]["advice"])


if __name__ == "__main__":
    e2e.main()
