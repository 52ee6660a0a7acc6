# Options of the build. Presets (CMakePresets.json) set them for daily use.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(TWINPATH_SANITIZE "" CACHE STRING
    "Sanitizers to build with: empty, 'address;undefined' or 'thread'")
option(TWINPATH_BUILD_TESTS "Build the tests" ON)
option(TWINPATH_KERNELS "Build kernels/ where nvcc is found" ON)

option(TWINPATH_FUZZ "Build the libFuzzer targets of tests/fuzz (clang)" OFF)

# Saves a third of the time to compile, and hides a missing #include; GCC 12 also
# forgets in them where the standard library had switched off a warning about
# bounds, and at -O3 warns without reason. So they are for the sanitizer builds.
# The release build stays without: it compiles every source, with every warning,
# from what the source itself includes. So do a plain build and clang-tidy.
option(TWINPATH_PRECOMPILED_HEADERS
       "Precompile what most sources include (GCC)" OFF)
if(TWINPATH_PRECOMPILED_HEADERS AND NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  message(STATUS "precompiled headers: left out, the compiler is not GCC")
  set(TWINPATH_PRECOMPILED_HEADERS OFF)
endif()

# Optimizing gtest's matchers takes longer than the tests run. The code under
# test is compiled as the build type says.
set(TWINPATH_TEST_OPTIMIZATION "" CACHE STRING
    "Optimization of the tests' own sources, -O0 say; empty: as all others")

# A subset builds faster while one folder is worked on.
set(TWINPATH_FOLDERS
    proto base inspect compat verdict trust runner agent coordinator cli
    kernels config deploy tests bench
    CACHE STRING "Folders to build")

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  if(TWINPATH_PRECOMPILED_HEADERS)
    # Without these ccache takes no source that uses a precompiled header, and
    # preprocesses each before it compiles it. No source has __DATE__ or __TIME__.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        env CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros
        "${CCACHE_PROGRAM}")
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
endif()

# lld links the static gRPC several times faster than bfd.
find_program(LLD_PROGRAM NAMES ld.lld ld.lld-14)
if(LLD_PROGRAM)
  add_link_options(-fuse-ld=lld)
endif()

foreach(sanitizer IN LISTS TWINPATH_SANITIZE)
  add_compile_options("-fsanitize=${sanitizer}" -fno-omit-frame-pointer)
  add_link_options("-fsanitize=${sanitizer}")
endforeach()
if("undefined" IN_LIST TWINPATH_SANITIZE)
  add_compile_options(-fno-sanitize-recover=undefined)
endif()
if(TWINPATH_PRECOMPILED_HEADERS)
  add_compile_options(
    $<$<COMPILE_LANGUAGE:CXX>:-Wno-array-bounds$<SEMICOLON>-Wno-stringop-overflow$<SEMICOLON>-Wno-stringop-overread>)
endif()
if(TWINPATH_SANITIZE)
  # GCC's sanitizers produce false "maybe uninitialized" findings.
  add_compile_options(-Wno-maybe-uninitialized)
endif()

if(TWINPATH_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TWINPATH_FUZZ needs clang (preset fuzz)")
  endif()
  # vptr wants type information of libraries that were built without it.
  # Warnings are the business of the ordinary build.
  set(_fuzz_flags -fsanitize=fuzzer-no-link,address,undefined
      -fno-sanitize=vptr,function -fno-sanitize-recover=undefined
      -fno-omit-frame-pointer)
  add_compile_options(${_fuzz_flags} -w)
  add_link_options(-fsanitize=address,undefined -fno-sanitize=vptr,function)
endif()

# No path of the building machine in a binary.
add_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}=.")
