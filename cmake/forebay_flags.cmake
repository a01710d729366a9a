# Flags for all of our own code.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  # What its manual asks for with precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

add_library(forebay_flags INTERFACE)
target_compile_options(forebay_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Werror
  # Pixels are defined exactly: a fused multiply-add that the compiler chose would change them.
  -ffp-contract=off
  # Messages name a source as the tree has it, not where the tree lay when it was built.
  -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=
  # g++ 12 sees uninitialised strings in every std::variant that it moves (GCC bug 105562 and kin).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # AVX2 is the floor on x86; faster kernels are chosen at run time.
  target_compile_options(forebay_flags INTERFACE -march=x86-64-v3 -mtune=generic)
  # On a lesser processor the system's loader says so, instead of a crash at some instruction.
  target_link_options(forebay_flags INTERFACE LINKER:-z,x86-64-v3)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # Highway compiles its NEON functions with AES, so that ours must be too to inline them; none uses
  # it. No kernels for SVE: its vectors have no size at compile time, and ours lie in arrays.
  target_compile_options(forebay_flags INTERFACE -march=armv8-a+crypto)
  target_compile_definitions(forebay_flags INTERFACE HWY_COMPILE_ONLY_STATIC)
endif()
if(FOREBAY_SANITIZE)
  add_compile_options(-fsanitize=${FOREBAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FOREBAY_SANITIZE})
endif()
if(FOREBAY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
