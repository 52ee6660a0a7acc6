/* twinpath-trace.so: lists the modules of device code that a process loads and
 * the kernels it launches. The driver loads it for CUDA_INJECTION64_PATH and
 * calls InitializeInjection; it subscribes to CUPTI's callbacks, with whatever
 * libcupti the process already has or else one of those that
 * TWINPATH_TRACE_CUPTI names (paths between colons).
 *
 * See record.h for what it writes. Launches are counted in a file mapped
 * shared, so the counts outlive a crash and a launch costs no system call. It
 * keeps no descriptor open. Whatever fails is recorded as a problem, and the
 * program goes on as if nobody looked.
 *
 * Kernels that device code launches, and nodes of conditional graphs, are not
 * seen. Needs no symbol above GLIBC_2.17. */

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "runner/trace/cupti_types.h"
#include "runner/trace/record.h"
#include "runner/trace/system.h"
#include "runner/trace/trace_parts.h"

/* The versions in which these have been there from the start; newer C libraries
 * have a second one. */
#if defined(__x86_64__)
#define OLD_VERSION "GLIBC_2.2.5"
#else
#define OLD_VERSION "GLIBC_2.17"
#endif
__asm__(".symver dlopen,dlopen@" OLD_VERSION);
__asm__(".symver dlsym,dlsym@" OLD_VERSION);
__asm__(".symver dlerror,dlerror@" OLD_VERSION);

#define EXPORT __attribute__((visibility("default")))

static struct {
  int (*GetVersion)(uint32_t*);
  int (*Subscribe)(void**, TpCallbackFunction, void*);
  int (*EnableCallback)(uint32_t, void*, uint32_t, uint32_t);
  int (*GetResultString)(int, const char**);
} cupti;

/* ISO C has no conversion from an object to a function pointer. */
static void Find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  memcpy(function, &found, sizeof(found));
}

static void FindDriver(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) {
    TpTraceProblem("the driver's library is not found in the process",
                   "graphs and the GPU are not looked at");
    return;
  }
  Find(library, "cuCtxGetDevice", &tp_driver.CtxGetDevice);
  Find(library, "cuDeviceGetAttribute", &tp_driver.DeviceGetAttribute);
  Find(library, "cuStreamIsCapturing", &tp_driver.StreamIsCapturing);
  Find(library, "cuFuncGetName", &tp_driver.FuncGetName);
  Find(library, "cuKernelGetName", &tp_driver.KernelGetName);
  Find(library, "cuGraphGetNodes", &tp_driver.GraphGetNodes);
  Find(library, "cuGraphNodeGetType", &tp_driver.GraphNodeGetType);
  Find(library, "cuGraphKernelNodeGetParams_v2",
       &tp_driver.GraphKernelNodeGetParams);
  Find(library, "cuGraphChildGraphNodeGetGraph",
       &tp_driver.GraphChildGraphNodeGetGraph);
}

static void Enable(void* subscriber) {
  static const struct {
    uint8_t domain;
    uint8_t needed; /* else only newer versions know it */
    uint16_t id;
  } kWanted[] = {
      {TP_DOMAIN_RESOURCE, 1, TP_RESOURCE_MODULE_LOADED},
      {TP_DOMAIN_DRIVER, 1, TP_CU_LAUNCH_KERNEL},
      {TP_DOMAIN_DRIVER, 1, TP_CU_LAUNCH_KERNEL_PTSZ},
      {TP_DOMAIN_DRIVER, 1, TP_CU_LAUNCH_COOPERATIVE},
      {TP_DOMAIN_DRIVER, 1, TP_CU_LAUNCH_COOPERATIVE_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LAUNCH_KERNEL_EX},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LAUNCH_KERNEL_EX_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LAUNCH_COOPERATIVE_MULTI},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LAUNCH},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LAUNCH_GRID},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LAUNCH_GRID_ASYNC},
      {TP_DOMAIN_DRIVER, 0, TP_CU_BEGIN_CAPTURE},
      {TP_DOMAIN_DRIVER, 0, TP_CU_BEGIN_CAPTURE_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_BEGIN_CAPTURE_2},
      {TP_DOMAIN_DRIVER, 0, TP_CU_BEGIN_CAPTURE_2_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_BEGIN_CAPTURE_TO_GRAPH},
      {TP_DOMAIN_DRIVER, 0, TP_CU_BEGIN_CAPTURE_TO_GRAPH_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_INSTANTIATE},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_INSTANTIATE_2},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_INSTANTIATE_FLAGS},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_INSTANTIATE_PARAMS},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_INSTANTIATE_PARAMS_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_EXEC_UPDATE},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_EXEC_UPDATE_2},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_EXEC_KERNEL_SET},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_EXEC_KERNEL_SET_2},
      {TP_DOMAIN_DRIVER, 0, TP_CU_GRAPH_EXEC_DESTROY},
      {TP_DOMAIN_DRIVER, 1, TP_CU_GRAPH_LAUNCH},
      {TP_DOMAIN_DRIVER, 1, TP_CU_GRAPH_LAUNCH_PTSZ},
      {TP_DOMAIN_DRIVER, 0, TP_CU_LIBRARY_GET_KERNEL},
      {TP_DOMAIN_DRIVER, 0, TP_CU_MODULE_GET_FUNCTION},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_PTSZ},
      {TP_DOMAIN_RUNTIME, 1, TP_CUDA_LAUNCH_KERNEL},
      {TP_DOMAIN_RUNTIME, 1, TP_CUDA_LAUNCH_KERNEL_PTSZ},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_COOPERATIVE},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_COOPERATIVE_PTSZ},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_COOPERATIVE_MULTI},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_KERNEL_EX},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_KERNEL_EX_PTSZ},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_KERNEL_13},
      {TP_DOMAIN_RUNTIME, 0, TP_CUDA_LAUNCH_KERNEL_13_PTSZ},
  };
  size_t i;
  for (i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); ++i) {
    if (cupti.EnableCallback(1, subscriber, kWanted[i].domain, kWanted[i].id) !=
            0 &&
        kWanted[i].needed) {
      TpTraceProblem("cuptiEnableCallback failed; the record is not complete",
                     "");
    }
  }
}

/* Subscribes with `library`. Returns whether that worked. */
static int Subscribe(void* library, const char* name) {
  void* subscriber = NULL;
  uint32_t version = 0;
  int error;
  Find(library, "cuptiGetVersion", &cupti.GetVersion);
  Find(library, "cuptiSubscribe", &cupti.Subscribe);
  Find(library, "cuptiEnableCallback", &cupti.EnableCallback);
  Find(library, "cuptiGetResultString", &cupti.GetResultString);
  if (cupti.GetVersion == NULL || cupti.Subscribe == NULL ||
      cupti.EnableCallback == NULL) {
    TpTraceProblem(name, "it is no CUPTI library");
    return 0;
  }
  cupti.GetVersion(&version);
  error = cupti.Subscribe(&subscriber, TpOnCallback, NULL);
  if (error != 0) {
    const char* text = NULL;
    char detail[256];
    size_t at = TpAppend(detail, sizeof(detail), 0, "cuptiSubscribe: error ");
    at = TpAppendNumber(detail, sizeof(detail), at, (uint64_t)error);
    if (cupti.GetResultString != NULL &&
        cupti.GetResultString(error, &text) == 0 && text != NULL) {
      at = TpAppend(detail, sizeof(detail), at, " ");
      TpAppend(detail, sizeof(detail), at, text);
    }
    TpTraceProblem(name, detail);
    return 0;
  }
  /* First: what follows may already come from other threads. */
  TpTraceRecord(TP_RECORD_STARTED, version, 0, name, strlen(name));
  FindDriver();
  Enable(subscriber);
  return 1;
}

static void StartCupti(void) {
  const char* paths = getenv(TP_TRACE_CUPTI_VARIABLE);
  char name[2304];
  int tried = 0;
  int major;
  /* A second copy beside one that the program brings would be trouble. */
  for (major = 24; major >= 9; --major) {
    size_t at = TpAppend(name, sizeof(name), 0, "libcupti.so.");
    void* library;
    TpAppendNumber(name, sizeof(name), at, (uint64_t)major);
    library = dlopen(name, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) continue;
    Subscribe(library, name);
    return;
  }
  while (paths != NULL && *paths != '\0') {
    size_t length = 0;
    void* library;
    while (paths[length] != '\0' && paths[length] != ':') ++length;
    if (length > 0 && length < sizeof(name)) {
      memcpy(name, paths, length);
      name[length] = '\0';
      tried = 1;
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library == NULL) {
        const char* why = dlerror();
        TpTraceProblem("CUPTI does not load", why == NULL ? name : why);
      } else if (Subscribe(library, name)) {
        return;
      }
    }
    paths += length;
    if (*paths == ':') ++paths;
  }
  if (!tried) TpTraceProblem("no CUPTI library was found on the host", "");
}

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void) {
  static int done;
  const char* named = getenv(TP_TRACE_FOLDER_VARIABLE);
  size_t at;
  int counted;
  if (__atomic_exchange_n(&done, 1, __ATOMIC_ACQ_REL) != 0 || named == NULL ||
      strlen(named) >= sizeof(tp_trace_folder)) {
    return 1;
  }
  TpAppend(tp_trace_folder, sizeof(tp_trace_folder), 0, named);
  at = TpAppend(tp_trace_file, sizeof(tp_trace_file), 0, tp_trace_folder);
  TpAppend(tp_trace_file, sizeof(tp_trace_file), at, "/device");
  counted = TpMapCounts();
  StartCupti();
  /* Behind the record that it started, which settles what went wrong before. */
  if (!counted) TpTraceProblem("launches are not counted: no file for it", "");
  return 1;
}
