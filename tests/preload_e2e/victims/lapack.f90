! Linked to the reference LAPACK, which calls BLAS through the PLT. lapack: factorizes a 200x200 matrix, then one dgemm and
! one ssyrk of its own. tests/preload_e2e/test_reach.py counts the calls that dgetrf makes by the recursion it documents.
program lapack
  implicit none
  integer, parameter :: n = 200
  double precision :: a(n, n), b(5, 4), c(4, 6), d(5, 6)
  real :: e(7, 3), f(7, 7)
  integer :: pivots(n), info, i, j
  external dgetrf, dgemm, ssyrk
  do j = 1, n
    do i = 1, n
      a(i, j) = 1d0 / (i + j) + merge(10d0, 0d0, i == j)
    end do
  end do
  call dgetrf(n, n, a, n, pivots, info)
  b = 1
  c = 2
  call dgemm('N', 'N', 5, 6, 4, 1d0, b, 5, c, 4, 0d0, d, 5)
  e = 1
  call ssyrk('L', 'N', 7, 3, 1.0, e, 7, 0.0, f, 7)
  print '(a, i0, a, f0.3, a, f0.1, a, f0.1)', 'info ', info, ' last ', a(n, n), ' d ', d(5, 6), ' f ', f(7, 1)
end program lapack
