"""Threads that wait actively, in real PyTorch. Runs alone: beside other programs little is left of two processors to spin on."""

from frameworks import e2e
from test_findings import FindingsCase


class Spinning(FindingsCase):
    def test_threads_that_spin(self):
        self.assertEqual(self.findings("spinning-threads", "spinning-threads", "passive", OMP_WAIT_POLICY="passive"), [])
        finding, = self.findings("spinning-threads", "spinning-threads", "victim", OMP_WAIT_POLICY="active")
        self.assertGreaterEqual(finding["gain_percent"], 20)
        self.assertIn("OMP_WAIT_POLICY=passive", finding["advice"])


if __name__ == "__main__":
    e2e.main()
