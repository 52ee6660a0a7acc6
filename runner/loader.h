// What the dynamic loader would find, without loading anything.

#ifndef TWINPATH_RUNNER_LOADER_H_
#define TWINPATH_RUNNER_LOADER_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "twinpath/v1/facts.pb.h"

namespace twinpath::runner {

// One line of `ldconfig -p` for this host's architecture.
struct CachedLibrary {
  std::string soname;
  std::string path;
};

// Parses the text of `ldconfig -p`, keeping `architecture`'s libraries only.
std::vector<CachedLibrary> ParseLoaderCache(absl::string_view text,
                                            v1::CpuArchitecture architecture);

// The loader cache of this host; empty if ldconfig cannot be run.
std::vector<CachedLibrary> LoaderCache();

// Folder that has to be on LD_LIBRARY_PATH for programs to find libcuda.so.1:
// "" where the loader finds it by itself or it is nowhere. Container images
// mount the driver at places that no loader cache lists (/usr/local/nvidia,
// /usr/lib/wsl/lib).
std::string DriverFolder();

// Which stems of sonames CudaLibraries looks for, "libcudart".
std::vector<std::string> CudaLibraryStems();

// CUDA libraries in folders, for this host's CPU, with `place`: what stands in
// `known` (by path) is left out. Versioned names only.
std::vector<v1::Library> CudaLibrariesIn(
    const std::vector<std::string>& folders, v1::LibraryPlace place,
    const std::vector<v1::Library>& known, const std::string& root);

// The folders the loader searches without a cache.
std::vector<std::string> DefaultLibraryFolders();

// CUDA libraries among `cache` (cudart, cuBLAS, cuDNN, NCCL and friends), each
// soname once, in the loader's order.
std::vector<v1::Library> CudaLibraries(const std::vector<CachedLibrary>& cache,
                                       bool digests);

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LOADER_H_
