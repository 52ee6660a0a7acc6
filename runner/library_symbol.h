// A function of a library that was opened with dlopen. Older and newer versions
// of a driver name or lack functions differently, so each may be absent.

#ifndef TWINPATH_RUNNER_LIBRARY_SYMBOL_H_
#define TWINPATH_RUNNER_LIBRARY_SYMBOL_H_

#include <dlfcn.h>

#include <initializer_list>

namespace twinpath::runner {

// Sets `function` to the first of `names` that the library has; leaves it where
// it has none.
template <typename Function>
void Look(void* handle, Function& function,
          std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* symbol = dlsym(handle, name); symbol != nullptr) {
      function = reinterpret_cast<Function>(symbol);
      return;
    }
  }
}

}  // namespace twinpath::runner

#endif  // TWINPATH_RUNNER_LIBRARY_SYMBOL_H_
