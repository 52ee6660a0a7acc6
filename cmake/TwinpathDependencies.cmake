# Third-party libraries as imported targets.
#
# gRPC, Protobuf, Abseil, RE2, c-ares and yaml-cpp are linked statically, since
# their package and library names differ between Debian 12, Ubuntu 24.04 and
# DGX OS; spdlog, fmt and CLI11 are used as headers. Only libraries whose
# package name agrees everywhere are linked dynamically, so that security fixes
# come with the system.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# Makes twinpath::<name> from pkg-config's static link line. Libraries named in
# DYNAMIC stay shared.
function(twinpath_static_package name)
  cmake_parse_arguments(ARG "" "" "PACKAGES;DYNAMIC" ${ARGN})
  execute_process(
    COMMAND "${PKG_CONFIG_EXECUTABLE}" --static --libs-only-l ${ARG_PACKAGES}
    OUTPUT_VARIABLE libs OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "pkg-config does not know: ${ARG_PACKAGES}")
  endif()
  separate_arguments(libs UNIX_COMMAND "${libs}")
  list(REMOVE_DUPLICATES libs)
  set(static)
  set(dynamic)
  foreach(lib IN LISTS libs)
    string(REGEX REPLACE "^-l" "" bare "${lib}")
    if(bare IN_LIST ARG_DYNAMIC)
      list(APPEND dynamic "${lib}")
    else()
      find_library(TWINPATH_LIB_${bare} NAMES "lib${bare}.a")
      if(TWINPATH_LIB_${bare})
        list(APPEND static "${TWINPATH_LIB_${bare}}")
      else()
        list(APPEND dynamic "${lib}")
      endif()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES dynamic)
  add_library("twinpath_dep_${name}" INTERFACE)
  add_library("twinpath::${name}" ALIAS "twinpath_dep_${name}")
  # One group, because the archives refer to each other in circles.
  target_link_libraries("twinpath_dep_${name}" INTERFACE
    -Wl,--start-group ${static} -Wl,--end-group ${dynamic} Threads::Threads)
endfunction()

set(TWINPATH_SYSTEM_LIBRARIES
    ssl crypto z zstd lz4 systemd elf archive pthread dl m rt c)

twinpath_static_package(grpc
  PACKAGES grpc++ protobuf absl_status absl_statusor absl_strings absl_time
           absl_flat_hash_map absl_str_format absl_synchronization absl_random_random
           re2 libcares
  DYNAMIC ${TWINPATH_SYSTEM_LIBRARIES})
twinpath_static_package(protobuf
  PACKAGES protobuf DYNAMIC ${TWINPATH_SYSTEM_LIBRARIES})
twinpath_static_package(absl
  PACKAGES absl_status absl_statusor absl_strings absl_time absl_cord
           absl_flat_hash_map absl_flat_hash_set absl_str_format
           absl_cleanup absl_any_invocable absl_span absl_random_random
  DYNAMIC ${TWINPATH_SYSTEM_LIBRARIES})
twinpath_static_package(re2
  PACKAGES re2 DYNAMIC ${TWINPATH_SYSTEM_LIBRARIES})
twinpath_static_package(yaml
  PACKAGES yaml-cpp DYNAMIC ${TWINPATH_SYSTEM_LIBRARIES})

# Header-only use; their shared library names differ between systems.
add_library(twinpath_dep_spdlog INTERFACE)
add_library(twinpath::spdlog ALIAS twinpath_dep_spdlog)
target_compile_definitions(twinpath_dep_spdlog INTERFACE
  SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

add_library(twinpath_dep_codecs INTERFACE)
add_library(twinpath::codecs ALIAS twinpath_dep_codecs)
target_link_libraries(twinpath_dep_codecs INTERFACE zstd lz4 z)

# Archives: tar, zip, ar and their packings. Dynamic: its package name agrees.
add_library(twinpath_dep_archive INTERFACE)
add_library(twinpath::archive ALIAS twinpath_dep_archive)
target_link_libraries(twinpath_dep_archive INTERFACE archive)

# System call filter of the inspector; the archive is small and has no
# dependencies.
find_library(TWINPATH_SECCOMP NAMES libseccomp.a REQUIRED)
add_library(twinpath_dep_seccomp INTERFACE)
add_library(twinpath::seccomp ALIAS twinpath_dep_seccomp)
target_link_libraries(twinpath_dep_seccomp INTERFACE "${TWINPATH_SECCOMP}")

add_library(twinpath_dep_sqlite INTERFACE)
add_library(twinpath::sqlite ALIAS twinpath_dep_sqlite)
target_link_libraries(twinpath_dep_sqlite INTERFACE sqlite3)

if(TWINPATH_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()

# nvcc: PATH, CUDA_HOME, then /usr/local/cuda*. One that does not run (a wrapper
# whose toolkit is gone) is none.
function(twinpath_nvcc_runs result candidate)
  execute_process(COMMAND "${candidate}" --version
                  RESULT_VARIABLE code OUTPUT_QUIET ERROR_QUIET)
  if(NOT code EQUAL 0)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
file(GLOB _cuda_folders LIST_DIRECTORIES true /usr/local/cuda*)
find_program(TWINPATH_NVCC nvcc
  HINTS "$ENV{CUDA_HOME}/bin"
  PATHS /usr/local/cuda/bin ${_cuda_folders}
  PATH_SUFFIXES bin
  VALIDATOR twinpath_nvcc_runs)
if(TWINPATH_NVCC)
  message(STATUS "nvcc: ${TWINPATH_NVCC}")
else()
  message(STATUS "nvcc: not found; what needs it is skipped by name")
endif()
