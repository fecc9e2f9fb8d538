# Warnings and sanitizers for all of dlhook's own targets: target_link_libraries(X PRIVATE dlhook_options).
set(DLHOOK_SANITIZE "" CACHE STRING "Sanitizers for the static libraries and tests, e.g. address,undefined or thread")

add_library(dlhook_options INTERFACE)
# Members that designated initializers leave out are zero on purpose.
target_compile_options(dlhook_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
target_include_directories(dlhook_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_definitions(dlhook_options INTERFACE DLHOOK_VERSION="${PROJECT_VERSION}")

add_library(dlhook_sanitizers INTERFACE)
if(DLHOOK_SANITIZE)
  target_compile_options(dlhook_sanitizers INTERFACE -fsanitize=${DLHOOK_SANITIZE} -fno-omit-frame-pointer)
  if(DLHOOK_SANITIZE MATCHES "undefined")
    # vptr requires type information, which the shim's parts are built without. The others double the time to compile a
    # file of the analyzer, and report what AddressSanitizer reports for code without casts, too: they are for the shim's
    # parts, which read raw memory (dlhook_pointer_checks).
    target_compile_options(dlhook_sanitizers INTERFACE -fno-sanitize=vptr,null,alignment,object-size,pointer-overflow)
    set(_pointer_checks -fsanitize=null,alignment,object-size,pointer-overflow)
  endif()
  if(DLHOOK_SANITIZE MATCHES "thread")
    target_compile_options(dlhook_sanitizers INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)  # it does not see fences
  endif()
  target_link_options(dlhook_sanitizers INTERFACE -fsanitize=${DLHOOK_SANITIZE})
endif()

# After dlhook_sanitizers: a later option wins.
add_library(dlhook_pointer_checks INTERFACE)
target_link_libraries(dlhook_pointer_checks INTERFACE dlhook_sanitizers)
target_compile_options(dlhook_pointer_checks INTERFACE ${_pointer_checks})
