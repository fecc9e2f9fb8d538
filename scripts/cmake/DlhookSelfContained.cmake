# For packages: the command dlhook with every library but glibc's linked into it, and no symbol of glibc above 2.34, which
# the shim needs anyway. Include before and call dlhook_self_contain() after find_package. Not for tests: each would hold
# all libraries, which takes longer to link.
option(DLHOOK_SELF_CONTAINED "Link all libraries but glibc's into dlhook" OFF)

if(DLHOOK_SELF_CONTAINED)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

# Debian's Abseil has archives beside its shared libraries; its CMake package only knows the latter.
function(dlhook_self_contain)
  if(NOT DLHOOK_SELF_CONTAINED)
    return()
  endif()
  get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(_target ${_targets})
    get_target_property(_location ${_target} LOCATION)
    if(_target MATCHES "^absl::" AND _location MATCHES "\\.so")
      string(REGEX REPLACE "\\.so.*" ".a" _archive ${_location})
      get_target_property(_configurations ${_target} IMPORTED_CONFIGURATIONS)
      foreach(_configuration ${_configurations})
        set_target_properties(${_target} PROPERTIES IMPORTED_LOCATION_${_configuration} ${_archive})
      endforeach()
    endif()
  endforeach()
endfunction()
