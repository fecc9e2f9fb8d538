"""PyTorch's unmodified CUDA wheel on the fake libraries: they see the same calls with and without dlhook."""

import collections

import fake_gpu
from fake_gpu import OWN_CALLS, e2e, fake_log, program


class Transparency(fake_gpu.Case):
    """The calls that the libraries see do not depend on dlhook; and without it all runs are the same."""

    def test_two_runs_make_the_same_calls(self):
        for arguments_ in (["lenet", "--benchmark"], ["transformer", "--amp", "fp16"], ["lstm"]):
            with self.subTest(arguments_):
                argv = program("train", *arguments_)
                _, first = self.plain(argv)
                _, second = self.plain(argv)
                self.assertEqual(fake_log.stable(first), fake_log.stable(second))

    def test_dlhook_adds_only_its_own_questions(self):
        for arguments_ in (
            ["lenet", "--benchmark"],
            ["lenet", "--channels-last", "--copies", "pinned"],
            ["lstm"],
            ["resnet", "--amp", "fp16"],
            ["linear", "--graph"],
        ):
            with self.subTest(arguments_):
                argv = program("train", *arguments_)
                plain, log = self.plain(argv)
                self.fresh_run()
                result = self.under("launcher", argv, **self.scenario())
                self.assert_same_behaviour(plain, result, "launcher")
                (hooked,) = self.logs().values()
                ours, theirs = (
                    fake_log.stable([call for call in calls if call.function not in OWN_CALLS], handles=False)
                    for calls in (hooked, log)
                )
                self.assertEqual(ours, theirs)
                more = collections.Counter(call.function for call in hooked if call.library != "cupti")
                more.subtract(call.function for call in log)
                self.assertEqual({name for name, count in more.items() if count != 0} - OWN_CALLS, set())


if __name__ == "__main__":
    e2e.main()
