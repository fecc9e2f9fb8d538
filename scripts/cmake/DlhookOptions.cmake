# Warnings and sanitizers for all of dlhook's own targets: target_link_libraries(X PRIVATE dlhook_options).
set(DLHOOK_SANITIZE "" CACHE STRING "Sanitizers for the static libraries and tests, e.g. address,undefined or thread")

add_library(dlhook_options INTERFACE)
target_compile_options(dlhook_options INTERFACE -Wall -Wextra -Wno-unused-parameter
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
target_include_directories(dlhook_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_definitions(dlhook_options INTERFACE DLHOOK_VERSION="${PROJECT_VERSION}")

add_library(dlhook_sanitizers INTERFACE)
if(DLHOOK_SANITIZE)
  target_compile_options(dlhook_sanitizers INTERFACE -fsanitize=${DLHOOK_SANITIZE} -fno-omit-frame-pointer)
  if(DLHOOK_SANITIZE MATCHES "undefined")
    # Asks for type information, which the shim's parts are built without.
    target_compile_options(dlhook_sanitizers INTERFACE -fno-sanitize=vptr)
  endif()
  target_link_options(dlhook_sanitizers INTERFACE -fsanitize=${DLHOOK_SANITIZE})
endif()
