# Every library that Forebay links. packages.txt lists the Debian packages that hold them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
endif()
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(tl-expected REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)
find_package(CURL 7.88 REQUIRED)
find_package(pugixml REQUIRED)
find_package(Boost 1.74 REQUIRED)  # Asio and Beast, which are headers only
# Asio 1.18 would use std::result_of, which is deprecated. ThreadSanitizer does not know its fences;
# its mutexes order the same accesses.
target_compile_definitions(Boost::headers INTERFACE BOOST_ASIO_HAS_STD_INVOKE_RESULT)
if(FOREBAY_SANITIZE STREQUAL "thread")
  target_compile_definitions(Boost::headers INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
pkg_check_modules(webp REQUIRED IMPORTED_TARGET libwebp libwebpdemux)

if(FOREBAY_TORCH)
  # libtorch comes from the pip package in the tree's virtual environment.
  execute_process(
    COMMAND ${CMAKE_SOURCE_DIR}/.venv/bin/python -c "import torch; print(torch.utils.cmake_prefix_path)"
    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
  find_package(Torch REQUIRED)
endif()

if(FOREBAY_PYTHON)
  # Without pip the module is built for the Python of the tree's virtual environment.
  if(NOT SKBUILD)
    set(Python_EXECUTABLE ${CMAKE_SOURCE_DIR}/.venv/bin/python)
  endif()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module
    OPTIONAL_COMPONENTS Development.SABIModule)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_package(nanobind CONFIG REQUIRED)
endif()
