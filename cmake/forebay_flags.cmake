# The compiler flags of all of Forebay's own code.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  # ccache's manual asks for the sloppiness when there are precompiled headers. The base folder lets
  # build folders share objects, since the headers lie at the same place below each of them.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
    CCACHE_BASEDIR=${CMAKE_BINARY_DIR} ${CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
endif()

# Wheels carry code for each of these GPUs, which others of the same generation run too, and PTX for
# the GPUs between and to come. A build in the tree has code for sm_80 alone, whose PTX every later
# GPU's driver compiles. The runtime is linked in, and looks for a driver when it is first called.
if(FOREBAY_CUDA)
  if(SKBUILD)
    set(CMAKE_CUDA_ARCHITECTURES 80 90-real 100-real 120)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80)
  endif()
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
  # Pixels are defined exactly, and a fused multiply-add of the compiler's choice would change them.
  -ffp-contract=off
  # Messages name a source by its path in the tree, not by where the tree lay when it was built.
  -fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=
  # g++ 12 warns of uninitialised strings in every std::variant that is moved (GCC bug 105562).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  # AVX2 is the floor on x86; faster kernels are chosen at run time.
  list(APPEND cxx_options -march=x86-64-v3 -mtune=generic)
  # On an older processor the system's loader says so, and the program does not crash later.
  target_link_options(forebay_flags INTERFACE LINKER:-z,x86-64-v3)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  # Highway compiles its NEON functions with AES, so our functions need AES to inline them, though
  # none uses it. There are no kernels for SVE: its vectors have no fixed size at compile time, and
  # our kernels keep vectors in arrays.
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
