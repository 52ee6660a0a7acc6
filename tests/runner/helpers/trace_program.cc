// The program under test of the tests of tracing: does what its words say, in
// order. libcuda.so.1 and samples lie beside it.
//
//   init                 open the driver and initialise it
//   module FILE [x]      load FILE as a module; x: with a byte changed
//   launch NAME N        launch a kernel N times
//   refuse NAME ERROR    the driver refuses a launch
//   lost NAME ERROR      the runtime finds no image for a kernel
//   graph NAME N         capture a launch, launch its graph N times
//   open FILE            dlopen
//   crash NAME           abort in the middle of a launch
//   fork                 the rest in a child process
//   exec                 the rest in a new program
//   write FILE TEXT      append to a file
//   exit N

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

// What device code's host half calls at its start (libcheck.so).
#define STUB(name)                                                 \
  extern "C" __attribute__((visibility("default"))) void* name() { \
    static void* handle[4];                                        \
    return static_cast<void*>(handle);                             \
  }
STUB(__cudaRegisterFatBinary)
STUB(__cudaRegisterFatBinaryEnd)
STUB(__cudaRegisterFunction)
STUB(__cudaUnregisterFatBinary)
STUB(__cudaInitModule)

namespace {

void* driver = nullptr;

template <typename Function>
Function Find(const char* name) {
  void* found = driver == nullptr ? nullptr : dlsym(driver, name);
  if (found == nullptr) {
    std::fprintf(stderr, "no %s\n", name);
    std::_Exit(99);
  }
  return reinterpret_cast<Function>(found);
}

std::string Here(const char* name) { return std::string("./") + name; }

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "init") {
      driver = dlopen("./libcuda.so.1", RTLD_NOW);
      if (driver == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
        return 98;
      }
      Find<int (*)(unsigned)>("cuInit")(0);
    } else if (word == "module") {
      std::ifstream in(Here(argv[++i]), std::ios::binary);
      std::string bytes((std::istreambuf_iterator<char>(in)),
                        std::istreambuf_iterator<char>());
      if (i + 1 < argc && std::strcmp(argv[i + 1], "x") == 0) {
        ++i;
        // Its ELF header's version of the machine: nobody reads it.
        bytes[8] = static_cast<char>(bytes[8] + 1);
      }
      Find<void (*)(const void*, size_t)>("FakeLoadModule")(bytes.data(),
                                                            bytes.size());
    } else if (word == "launch") {
      const char* name = argv[++i];
      for (int n = std::atoi(argv[++i]); n > 0; --n) {
        Find<int (*)(const char*, int, int)>("FakeLaunch")(name, 0, 0);
      }
    } else if (word == "refuse") {
      const char* name = argv[++i];
      Find<int (*)(const char*, int, int)>("FakeLaunch")(
          name, std::atoi(argv[++i]), 0);
    } else if (word == "lost") {
      const char* name = argv[++i];
      Find<int (*)(const char*, int)>("FakeRuntimeLaunch")(
          name, std::atoi(argv[++i]));
    } else if (word == "graph") {
      Find<void (*)()>("FakeBeginCapture")();
      const char* name = argv[++i];
      Find<int (*)(const char*, int, int)>("FakeLaunch")(name, 0, 0);
      Find<void (*)(int)>("FakeEndCaptureAndLaunch")(std::atoi(argv[++i]));
    } else if (word == "open") {
      if (dlopen(argv[++i], RTLD_LAZY) == nullptr) {
        std::fprintf(stderr, "%s\n", dlerror());
      }
    } else if (word == "crash") {
      Find<int (*)(const char*, int, int)>("FakeLaunch")(argv[++i], 0, 1);
    } else if (word == "fork") {
      const pid_t child = fork();
      if (child != 0) {
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 97;
      }
    } else if (word == "exec") {
      argv[i] = argv[0];
      execv("/proc/self/exe", argv + i);
      return 96;
    } else if (word == "write") {
      std::ofstream out(argv[++i], std::ios::app | std::ios::binary);
      out << argv[++i];
    } else if (word == "exit") {
      return std::atoi(argv[++i]);
    }
  }
  return 0;
}
