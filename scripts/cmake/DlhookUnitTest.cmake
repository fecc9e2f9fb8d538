include(CheckLinkerFlag)

# dlhook_link_fast(PROGRAM): with mold if it is there, in a quarter of the time. Only for tests.
function(dlhook_link_fast program)
  check_linker_flag(CXX -fuse-ld=mold DLHOOK_HAS_MOLD)
  if(DLHOOK_HAS_MOLD)
    target_link_options(${program} PRIVATE -fuse-ld=mold)
  endif()
endfunction()

# dlhook_unit_test(PROGRAM [LABELS label…]): the tests of a GoogleTest program are one test of ctest: a process for each
# of 2 500 takes longer than what most of them test. scripts/test.sh counts and reports each of them.
function(dlhook_unit_test program)
  cmake_parse_arguments(_test "" "" "LABELS" ${ARGN})
  dlhook_link_fast(${program})
  add_test(NAME ${program} COMMAND ${program})
  set_tests_properties(${program} PROPERTIES LABELS "unit;${_test_LABELS}" TIMEOUT 300 ENVIRONMENT GTEST_BRIEF=1)
endfunction()
