# The few functions with which every folder declares its targets.
#
#   twinpath_cc_library(NAME base SRCS a.cc HDRS a.h DEPS twinpath::absl)
#       makes twinpath_base with alias twinpath::base.
#   twinpath_cc_binary(NAME twinpath-inspect SRCS main.cc DEPS ... [LIBEXEC])
#   twinpath_cc_test(NAME base_test SRCS a_test.cc DEPS ... [LABELS unit] [GRPC])
#       one executable a folder; each TEST becomes one ctest test. GRPC: uses
#       gRPC in the process or through a daemon, so ThreadSanitizer leaves it
#       out (the packaged gRPC is not instrumented and reports false races).

add_library(twinpath_base_options INTERFACE)
add_library(twinpath::base_options ALIAS twinpath_base_options)
target_include_directories(twinpath_base_options INTERFACE
  "${PROJECT_SOURCE_DIR}")
target_compile_options(twinpath_base_options INTERFACE
  -Wall -Wextra -Wconversion -Wsuggest-override -Werror
  # False alarms on std::string at -O3 (GCC bug 105651, fixed in 13).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
target_compile_definitions(twinpath_base_options INTERFACE
  TWINPATH_VERSION="${PROJECT_VERSION}")

# Makes twinpath_precompiled_<name> of cmake/precompiled/<name>.h, for targets
# whose sources are compiled with the same options (twinpath_use_precompiled).
function(twinpath_precompile name)
  set(target "twinpath_precompiled_${name}")
  set(source "${PROJECT_BINARY_DIR}/precompiled/${name}.cc")
  file(CONFIGURE OUTPUT "${source}" CONTENT "// Nothing but the header.\n")
  add_library(${target} STATIC "${source}")
  target_link_libraries(${target} PRIVATE twinpath::proto ${ARGN}
                        twinpath::base_options)
  target_precompile_headers(${target} PRIVATE
    "${PROJECT_SOURCE_DIR}/cmake/precompiled/${name}.h")
endfunction()

# A header that does not fit the target's options is an error, not a slow build:
# -Winvalid-pch with -Werror.
function(twinpath_use_precompiled target name)
  if(TARGET "twinpath_precompiled_${name}")
    target_precompile_headers(${target} REUSE_FROM "twinpath_precompiled_${name}")
  endif()
endfunction()

if(TWINPATH_PRECOMPILED_HEADERS AND proto IN_LIST TWINPATH_FOLDERS)
  twinpath_precompile(product)
  if(TWINPATH_BUILD_TESTS)
    twinpath_precompile(tests GTest::gmock GTest::gtest)
    # The tests are programs, the libraries fit into shared objects as well.
    set_target_properties(twinpath_precompiled_tests PROPERTIES
      POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(twinpath_precompiled_tests PRIVATE
      -fPIE ${TWINPATH_TEST_OPTIMIZATION})
  endif()
endif()

function(twinpath_cc_library)
  cmake_parse_arguments(ARG "TESTONLY" "NAME" "SRCS;HDRS;DEPS" ${ARGN})
  if(ARG_TESTONLY AND NOT TWINPATH_BUILD_TESTS)
    return()
  endif()
  set(target "twinpath_${ARG_NAME}")
  if(ARG_SRCS)
    add_library(${target} STATIC ${ARG_SRCS} ${ARG_HDRS})
    target_link_libraries(${target} PUBLIC ${ARG_DEPS}
                          PRIVATE twinpath::base_options)
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
    twinpath_use_precompiled(${target} product)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE ${ARG_DEPS})
    target_include_directories(${target} INTERFACE "${PROJECT_SOURCE_DIR}")
  endif()
  add_library("twinpath::${ARG_NAME}" ALIAS ${target})
endfunction()

# Binaries that only other binaries start go to libexec/twinpath (LIBEXEC);
# in the build tree all lie in bin/, where they find each other.
function(twinpath_cc_binary)
  cmake_parse_arguments(ARG "LIBEXEC;NOINSTALL" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS}
                        twinpath::base_options)
  # Shared libraries that a program does not use are not loaded at its start.
  target_link_options(${ARG_NAME} PRIVATE -Wl,--gc-sections -Wl,--as-needed)
  if(ARG_NOINSTALL)
    return()
  endif()
  if(ARG_LIBEXEC)
    install(TARGETS ${ARG_NAME} RUNTIME DESTINATION libexec/twinpath)
  else()
    install(TARGETS ${ARG_NAME} RUNTIME DESTINATION bin)
  endif()
endfunction()

add_custom_target(twinpath_tests)

function(twinpath_cc_test)
  cmake_parse_arguments(ARG "GRPC" "NAME" "SRCS;DEPS;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT TWINPATH_BUILD_TESTS)
    return()
  endif()
  if(ARG_GRPC AND "thread" IN_LIST TWINPATH_SANITIZE)
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} twinpath::test_main
                        twinpath::base_options)
  target_compile_options(${ARG_NAME} PRIVATE ${TWINPATH_TEST_OPTIMIZATION})
  twinpath_use_precompiled(${ARG_NAME} tests)
  add_dependencies(twinpath_tests ${ARG_NAME})
  include(GoogleTest)
  gtest_discover_tests(${ARG_NAME}
    DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300
    TEST_LIST ${ARG_NAME}_list)
  # gtest_discover_tests takes lists in PROPERTIES apart and so keeps only the
  # first variable; a script that ctest reads behind its own sets them all.
  set(environment "TWINPATH_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
                  "TWINPATH_SOURCE_DIR=${PROJECT_SOURCE_DIR}" ${ARG_ENVIRONMENT})
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}_environment.cmake")
  file(WRITE "${script}"
    "foreach(test IN LISTS ${ARG_NAME}_list)\n"
    "  set_tests_properties(\"\${test}\" PROPERTIES\n"
    "    ENVIRONMENT [==[${environment}]==])\n"
    "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()
