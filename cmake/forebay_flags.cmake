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
  # What its manual asks for with precompiled headers, and what build folders share: there these lie
  # at the same place below each.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_BINARY_DIR} ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# GPUs from sm_80 on: code for each of these, which others of the same generation run too, and PTX
# for those between and to come. The runtime is linked in, and looks for a driver when it is first called.
if(FOREBAY_CUDA)
  set(CMAKE_CUDA_ARCHITECTURES 80 90-real 100-real 120)
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  # CMake 3.25 does not know that nvcc speaks C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA_STANDARD 20)
  set(CMAKE_CUDA_EXTENSIONS OFF)
endif()

add_library(forebay_flags INTERFACE)
set(cxx_options
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
  list(APPEND cxx_options -march=x86-64-v3 -mtune=generic)
  # On a lesser processor the system's loader says so, instead of a crash at some instruction.
  target_link_options(forebay_flags INTERFACE LINKER:-z,x86-64-v3)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # Highway compiles its NEON functions with AES, so that ours must be too to inline them; none uses
  # it. No kernels for SVE: its vectors have no size at compile time, and ours lie in arrays.
  list(APPEND cxx_options -march=armv8-a+crypto)
  target_compile_definitions(forebay_flags INTERFACE HWY_COMPILE_ONLY_STATIC)
endif()
target_compile_options(forebay_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${cxx_options}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;-Werror=all-warnings>")
if(FOREBAY_SANITIZE)
  add_compile_options(-fsanitize=${FOREBAY_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FOREBAY_SANITIZE})
endif()
if(FOREBAY_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
