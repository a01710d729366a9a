# In all of these, HEADERS are libraries' large ones, which each target parses once (precompiled).

# forebay_library(NAME SOURCES … DEPS … PRIVATE_DEPS … HEADERS …): one folder of src/, with every
# *_test.cc beside its sources built into NAME_test.
function(forebay_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;PRIVATE_DEPS;HEADERS" ${ARGN})
  add_library(forebay_${name} STATIC ${ARG_SOURCES})
  target_include_directories(forebay_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(forebay_${name} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS} forebay_flags)
  target_precompile_headers(forebay_${name} PRIVATE ${ARG_HEADERS})
  file(GLOB tests CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cc)
  if(tests AND BUILD_TESTING)
    forebay_test(${name}_test SOURCES ${tests} DEPS forebay_${name} ${ARG_PRIVATE_DEPS}
      HEADERS ${ARG_HEADERS})
  endif()
endfunction()

# forebay_test(NAME SOURCES … DEPS … HEADERS …): a GoogleTest program, part of all_tests; each of its
# cases is one CTest case.
add_custom_target(all_tests)
function(forebay_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;HEADERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main forebay_flags)
  add_dependencies(all_tests ${name})
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
endfunction()

# forebay_fuzzer(NAME DEPS …): tests/fuzz/NAME.cc as a libFuzzer target; corpus in tests/fuzz/corpus/NAME.
function(forebay_fuzzer name)
  cmake_parse_arguments(ARG "" "" "DEPS" ${ARGN})
  add_executable(${name} ${name}.cc)
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} forebay_flags)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()

# forebay_program(NAME SOURCES … DEPS … HEADERS …)
function(forebay_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;HEADERS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} forebay_flags)
endfunction()
