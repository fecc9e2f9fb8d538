"""NCCL and MPI: kinds, bytes, communicators, ranks."""

import cuda_e2e
import e2e


class Nccl(cuda_e2e.Case):
    def test_every_call(self):
        for host in e2e.HOSTS:
            with self.subTest(host=host):
                _, result = self.cuda([e2e.victim("collectives")], host)
                self.assertIn(b"same address 1", result.out)
                self.check_victim([e2e.victim("collectives")], host)


class Mpi(cuda_e2e.Case):
    def test_both_kinds_of_handles(self):
        for name in ("mpi_rank", "mpich_rank"):
            with self.subTest(name=name):
                run, result = self.cuda([e2e.victim(name)], DLHOOK_CAPTURE="mpi")
                told = cuda_e2e.told(result.out)
                calls = [call for call in run.trace().calls if call.function not in ("MPI_Init", "MPI_Finalize")]
                self.assert_calls(calls, told)


if __name__ == "__main__":
    cuda_e2e.main()
