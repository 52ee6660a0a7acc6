/* What CUPTI tells: launches, graphs, modules. */

#include <string.h>

#include "runner/trace/record.h"
#include "runner/trace/sha256.h"
#include "runner/trace/system.h"
#include "runner/trace/trace_parts.h"

static int device_noted;
static uint64_t module_bytes;
static int capture_seen;

/* What happened below the runtime call that the thread is in. */
struct Thread {
  int in_runtime;
  int driver_launches;
  int lookup_error;
  char lookup[1024];
};
static __thread struct Thread thread;

/* The compute capability of the GPU that is current at the first launch; runs
 * on GPUs of several kinds are rare, and coverage is by one of them. */
static void NoteDevice(void) {
  int device = 0;
  int major = 0;
  int minor = 0;
  if (__atomic_exchange_n(&device_noted, 1, __ATOMIC_RELAXED) != 0 ||
      tp_driver.CtxGetDevice == NULL || tp_driver.DeviceGetAttribute == NULL ||
      tp_driver.CtxGetDevice(&device) != 0 ||
      tp_driver.DeviceGetAttribute(&major, TP_CU_DEVICE_MAJOR, device) != 0 ||
      tp_driver.DeviceGetAttribute(&minor, TP_CU_DEVICE_MINOR, device) != 0) {
    return;
  }
  TpTraceRecord(TP_RECORD_DEVICE, (uint64_t)major, (uint64_t)minor, "", 0);
}

/* Whether a launch into `stream` becomes a node of a graph. */
static int IsCapturing(void* stream, int per_thread) {
  int state = 0;
  void* const handle =
      stream == NULL && per_thread ? (void*)(uintptr_t)2 : stream;
  return __atomic_load_n(&capture_seen, __ATOMIC_RELAXED) != 0 &&
         tp_driver.StreamIsCapturing != NULL &&
         tp_driver.StreamIsCapturing(handle, &state) == 0 && state != 0;
}

static void* StreamOf(uint32_t id, const void* parameters) {
  switch (id) {
    case TP_CU_LAUNCH_KERNEL:
    case TP_CU_LAUNCH_KERNEL_PTSZ:
    case TP_CU_LAUNCH_COOPERATIVE:
    case TP_CU_LAUNCH_COOPERATIVE_PTSZ:
      return ((const struct TpLaunchKernel*)parameters)->stream;
    case TP_CU_LAUNCH_KERNEL_EX:
    case TP_CU_LAUNCH_KERNEL_EX_PTSZ: {
      const struct TpLaunchConfig* config =
          ((const struct TpLaunchKernelEx*)parameters)->config;
      return config == NULL ? NULL : config->stream;
    }
    default:
      return NULL;
  }
}

static void* FunctionOf(uint32_t id, const void* parameters) {
  switch (id) {
    case TP_CU_LAUNCH_KERNEL_EX:
    case TP_CU_LAUNCH_KERNEL_EX_PTSZ:
      return ((const struct TpLaunchKernelEx*)parameters)->function;
    case TP_CU_LAUNCH_COOPERATIVE_MULTI:
      return NULL;
    default:
      return ((const struct TpLaunchKernel*)parameters)->function;
  }
}

static void OnLaunch(uint32_t id, const struct TpCallback* data) {
  const char* name = data->symbol;
  int32_t kernel;
  int error;
  if (data->parameters == NULL) return;
  if (name == NULL || name[0] == '\0') {
    name = TpNameOfFunction(FunctionOf(id, data->parameters));
  }
  if (name == NULL || name[0] == '\0') name = "(no name)";
  kernel = TpKernelIndex(name);
  if (data->site == TP_SITE_ENTER) {
    NoteDevice();
    return;
  }
  error = data->result == NULL ? 0 : *(const int*)data->result;
  ++thread.driver_launches;
  if (error == 0 && IsCapturing(StreamOf(id, data->parameters),
                                id == TP_CU_LAUNCH_KERNEL_PTSZ ||
                                    id == TP_CU_LAUNCH_COOPERATIVE_PTSZ ||
                                    id == TP_CU_LAUNCH_KERNEL_EX_PTSZ)) {
    return; /* counted when its graph is launched */
  }
  TpCount(kernel, error);
}

static void OnDriver(uint32_t id, const struct TpCallback* data) {
  const int exit = data->site == TP_SITE_EXIT;
  const int good = data->result == NULL || *(const int*)data->result == 0;
  if (data->parameters == NULL) return;
  switch (id) {
    case TP_CU_LAUNCH:
    case TP_CU_LAUNCH_GRID:
    case TP_CU_LAUNCH_GRID_ASYNC:
    case TP_CU_LAUNCH_KERNEL:
    case TP_CU_LAUNCH_KERNEL_PTSZ:
    case TP_CU_LAUNCH_COOPERATIVE:
    case TP_CU_LAUNCH_COOPERATIVE_PTSZ:
    case TP_CU_LAUNCH_COOPERATIVE_MULTI:
    case TP_CU_LAUNCH_KERNEL_EX:
    case TP_CU_LAUNCH_KERNEL_EX_PTSZ:
      OnLaunch(id, data);
      return;
    case TP_CU_BEGIN_CAPTURE:
    case TP_CU_BEGIN_CAPTURE_PTSZ:
    case TP_CU_BEGIN_CAPTURE_2:
    case TP_CU_BEGIN_CAPTURE_2_PTSZ:
    case TP_CU_BEGIN_CAPTURE_TO_GRAPH:
    case TP_CU_BEGIN_CAPTURE_TO_GRAPH_PTSZ:
      __atomic_store_n(&capture_seen, 1, __ATOMIC_RELAXED);
      return;
    case TP_CU_GRAPH_INSTANTIATE:
    case TP_CU_GRAPH_INSTANTIATE_2:
    case TP_CU_GRAPH_INSTANTIATE_FLAGS:
    case TP_CU_GRAPH_INSTANTIATE_PARAMS:
    case TP_CU_GRAPH_INSTANTIATE_PARAMS_PTSZ: {
      const struct TpGraphInstantiate* made =
          (const struct TpGraphInstantiate*)data->parameters;
      if (exit && good && made->exec != NULL)
        TpSetGraph(*made->exec, made->graph);
      return;
    }
    case TP_CU_GRAPH_EXEC_UPDATE:
    case TP_CU_GRAPH_EXEC_UPDATE_2: {
      const struct TpGraphExec* updated =
          (const struct TpGraphExec*)data->parameters;
      if (exit && good) TpSetGraph(updated->exec, updated->graph);
      return;
    }
    case TP_CU_GRAPH_EXEC_KERNEL_SET:
    case TP_CU_GRAPH_EXEC_KERNEL_SET_2:
      if (exit && good) {
        TpTraceProblem(
            "a kernel of a finished graph was exchanged; launches of that "
            "graph are counted for the earlier kernel",
            "");
      }
      return;
    case TP_CU_GRAPH_EXEC_DESTROY:
      if (!exit) {
        TpForgetGraph(((const struct TpGraphExec*)data->parameters)->exec);
      }
      return;
    case TP_CU_GRAPH_LAUNCH:
    case TP_CU_GRAPH_LAUNCH_PTSZ:
      if (exit) {
        TpCountGraph(((const struct TpGraphExec*)data->parameters)->exec,
                     data->result == NULL ? 0 : *(const int*)data->result);
      } else {
        NoteDevice();
      }
      return;
    case TP_CU_LIBRARY_GET_KERNEL:
    case TP_CU_MODULE_GET_FUNCTION: {
      const char* name = ((const struct TpGetKernel*)data->parameters)->name;
      if (!exit || good || !thread.in_runtime || name == NULL) return;
      thread.lookup_error = *(const int*)data->result;
      TpAppend(thread.lookup, sizeof(thread.lookup), 0, name);
      return;
    }
    default:
      return;
  }
}

/* A launch through the runtime that fails before it comes to the driver's
 * launch, as where no image fits the GPU, is seen only here. */
static void OnRuntime(const struct TpCallback* data) {
  const char* name;
  int error;
  if (data->site == TP_SITE_ENTER) {
    thread.in_runtime = 1;
    thread.driver_launches = 0;
    thread.lookup_error = 0;
    thread.lookup[0] = '\0';
    return;
  }
  thread.in_runtime = 0;
  error = data->result == NULL ? 0 : *(const int*)data->result;
  if (error == 0 || thread.driver_launches > 0) return;
  name = data->symbol;
  if (name == NULL || name[0] == '\0') name = thread.lookup;
  if (name[0] == '\0') name = "(no name)";
  TpCount(TpKernelIndex(name),
          thread.lookup_error != 0 ? thread.lookup_error : error);
}

static void OnModule(const struct TpModule* module) {
  static const char kDigits[] = "0123456789abcdef";
  uint8_t digest[32];
  char path[2304];
  char hex[65];
  int kept = 0;
  int fd;
  int i;
  size_t at;
  if (module == NULL || module->cubin == NULL || module->size == 0) {
    TpTraceProblem("a module was loaded whose bytes CUPTI does not give", "");
    return;
  }
  TpSha256(module->cubin, module->size, digest);
  for (i = 0; i < 32; ++i) {
    hex[i * 2] = kDigits[digest[i] >> 4];
    hex[i * 2 + 1] = kDigits[digest[i] & 15];
  }
  hex[64] = '\0';
  at = TpAppend(path, sizeof(path), 0, tp_trace_folder);
  at = TpAppend(path, sizeof(path), at, "/module-");
  TpAppend(path, sizeof(path), at, hex);
  if (module->size <= TP_TRACE_MAX_MODULE &&
      __atomic_add_fetch(&module_bytes, module->size, __ATOMIC_RELAXED) <=
          TP_TRACE_MAX_MODULES) {
    fd = TpOpen(path, TP_O_WRONLY | TP_O_CREAT | TP_O_EXCL, 0600);
    if (fd == -TP_EEXIST) {
      kept = 1;
      __atomic_sub_fetch(&module_bytes, module->size, __ATOMIC_RELAXED);
    } else if (fd >= 0) {
      size_t done = 0;
      while (done < module->size) {
        const long wrote =
            TpWrite(fd, module->cubin + done, module->size - done);
        if (wrote <= 0) break;
        done += (size_t)wrote;
      }
      kept = done == module->size;
      TpClose(fd);
    }
  }
  TpTraceRecord(TP_RECORD_MODULE, module->size, (uint64_t)kept, digest,
                sizeof(digest));
}

void TpOnCallback(void* user, uint32_t domain, uint32_t id, const void* data) {
  (void)user;
  if (data == NULL) return;
  switch (domain) {
    case TP_DOMAIN_DRIVER:
      OnDriver(id, (const struct TpCallback*)data);
      return;
    case TP_DOMAIN_RUNTIME:
      OnRuntime((const struct TpCallback*)data);
      return;
    case TP_DOMAIN_RESOURCE:
      if (id == TP_RESOURCE_MODULE_LOADED) {
        OnModule((const struct TpModule*)((const struct TpResource*)data)
                     ->descriptor);
      }
      return;
    default:
      return;
  }
}
