# dlhook_compile_together(TARGET [FOLDERS name…]): its sources (those in these folders), folder by folder. Local names
# differ within a folder.
function(dlhook_compile_together target)
  cmake_parse_arguments(PARSE_ARGV 1 _arg "" "" "FOLDERS")
  if(NOT DLHOOK_UNITY_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(_sources ${target} SOURCES)
  foreach(_source ${_sources})
    cmake_path(GET _source PARENT_PATH _folder)
    cmake_path(GET _folder FILENAME _folder)
    if(NOT _arg_FOLDERS OR _folder IN_LIST _arg_FOLDERS)
      set_source_files_properties(${_source} PROPERTIES UNITY_GROUP "${_folder}")
    endif()
  endforeach()
endfunction()

# dlhook_optimize_less(TARGET): -O1, which compiles in two thirds of the time. For code that runs once for a command or a
# row, and for what was measured to be no slower.
function(dlhook_optimize_less target)
  set_property(GLOBAL APPEND PROPERTY DLHOOK_ROOMS_O1 ${target})
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# dlhook_room(NAME [O1] [USES library…] [INSIDE library…]): a room of the analyzer, the static library dlhook_NAME
# from all *.cc in the folder. Headers need USES, only the sources INSIDE. New files need no further line. Local names
# differ within a room: its sources may be compiled together. O1: see dlhook_optimize_less.
function(dlhook_room name)
  cmake_parse_arguments(ROOM "O1" "" "USES;INSIDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  add_library(dlhook_${name} STATIC ${sources})
  target_compile_features(dlhook_${name} PUBLIC cxx_std_20)
  if(ROOM_O1)
    dlhook_optimize_less(dlhook_${name})
  endif()
  if(DLHOOK_UNITY_BUILD)
    set_target_properties(dlhook_${name} PROPERTIES UNITY_BUILD ON)
  endif()
  target_link_libraries(dlhook_${name} PUBLIC ${ROOM_USES} dlhook_sanitizers PRIVATE ${ROOM_INSIDE} dlhook_options)
endfunction()
