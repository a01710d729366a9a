# In all of these functions, HEADERS are large headers of libraries, which each target precompiles.

# forebay_library(NAME OPTIONAL … DEPS … PRIVATE_DEPS … HEADERS …): one folder of src/ with its rooms.
# Every source in them belongs to the library, except those in OPTIONAL, which the folder itself adds
# where the machine can compile them, and except rooms with a CMakeLists.txt, which are libraries of
# their own. Each *_test.cc, and all of the folder testing/, is built into
# NAME_test.
function(forebay_library name)
  cmake_parse_arguments(ARG "" "" "OPTIONAL;DEPS;PRIVATE_DEPS;HEADERS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} *.cc)
  file(GLOB own_libraries RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} */CMakeLists.txt */*/CMakeLists.txt)
  foreach(own ${own_libraries})
    get_filename_component(room ${own} DIRECTORY)
    list(FILTER sources EXCLUDE REGEX "^${room}/")
  endforeach()
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$|testing/")
  list(REMOVE_ITEM sources ${tests} ${ARG_OPTIONAL})
  add_library(forebay_${name} STATIC ${sources})
  target_include_directories(forebay_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(forebay_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS} forebay_flags)
  target_precompile_headers(forebay_${name} PRIVATE ${ARG_HEADERS})
  if(tests AND BUILD_TESTING)
    forebay_test(${name}_test SOURCES ${tests} DEPS forebay_${name} ${ARG_PRIVATE_DEPS}
      HEADERS ${ARG_HEADERS})
  endif()
endfunction()

# forebay_test(NAME SOURCES … DEPS … HEADERS …): a GoogleTest program, part of all_tests. CTest runs its
# cases in a few shards, NAME.0, NAME.1, …: a process for each case would mostly start and stop.
set(test_shards 4)
add_custom_target(all_tests)
function(forebay_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;HEADERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main forebay_flags)
  if(TARGET forebay_io_testing) # files in memory, servers that fail: every folder above io/ has it
    target_link_libraries(${name} PRIVATE forebay_io_testing)
  endif()
  # A test's own code runs once, and compiles a third faster this way.
  target_compile_options(${name} PRIVATE -O1)
  add_dependencies(all_tests ${name})
  math(EXPR last_shard "${test_shards} - 1")
  foreach(shard RANGE ${last_shard})
    add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}.${shard} PROPERTIES TIMEOUT 1200
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${test_shards};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# forebay_fuzzer(NAME DEPS …): tests/fuzz/NAME.cc as a libFuzzer target; corpus in tests/fuzz/corpus/NAME.
function(forebay_fuzzer name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} forebay_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# forebay_program(NAME SOURCES … DEPS … HEADERS …): an ordinary program.
function(forebay_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;HEADERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} forebay_flags)
endfunction()
