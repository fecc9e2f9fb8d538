# dlhook_unit_test(PROGRAM [LABELS label…]): the tests of a GoogleTest program are one test of ctest: a process for each
# of 2 500 takes longer than what most of them test. scripts/test.sh counts and reports each of them.
function(dlhook_unit_test program)
  cmake_parse_arguments(_test "" "" "LABELS" ${ARGN})
  add_test(NAME ${program} COMMAND ${program})
  set_tests_properties(${program} PROPERTIES LABELS "unit;${_test_LABELS}" TIMEOUT 300 ENVIRONMENT GTEST_BRIEF=1)
endfunction()
