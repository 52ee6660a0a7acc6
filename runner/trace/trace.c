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
#include <sys/mman.h>

#include "runner/trace/cupti_types.h"
#include "runner/trace/record.h"
#include "runner/trace/sha256.h"
#include "runner/trace/system.h"

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
#define SLOTS (TP_TRACE_MAX_KERNELS * 2)
#define MAX_GRAPHS 4096
#define MAX_NODES ((size_t)1 << 20)
#define MAX_GRAPH_DEPTH 8
#define NO_KERNEL (-1)

static char folder[2048];
static char device_file[2304];
static uint64_t dropped;
static uint32_t instance;

/* Kernels by name. Guarded by `lock`. */
static char names[4 << 20];
static size_t names_end;
static struct {
  uint64_t hash;
  const char* name;
} kernels[TP_TRACE_MAX_KERNELS];
static int32_t kernel_count;
static int32_t slots[SLOTS]; /* index + 1 */
static struct TraceCount* counts;

/* Executable graphs and the kernels in them. Guarded by `lock`. */
static struct {
  void* exec;
  int32_t* kernels;
  size_t count;
} graphs[MAX_GRAPHS];
static int graph_count;

static int device_noted;
static uint64_t module_bytes;
static int capture_seen;
static int problems;
static char lock_word;

/* What happened below the runtime call that the thread is in. */
struct Thread {
  int in_runtime;
  int driver_launches;
  int lookup_error;
  char lookup[1024];
};
static __thread struct Thread thread;

static struct {
  int (*GetVersion)(uint32_t*);
  int (*Subscribe)(void**, TpCallbackFunction, void*);
  int (*EnableCallback)(uint32_t, void*, uint32_t, uint32_t);
  int (*GetResultString)(int, const char**);
} cupti;

static struct {
  int (*CtxGetDevice)(int*);
  int (*DeviceGetAttribute)(int*, int, int);
  int (*StreamIsCapturing)(void*, int*);
  int (*FuncGetName)(const char**, void*);
  int (*KernelGetName)(const char**, void*);
  int (*GraphGetNodes)(void*, void**, size_t*);
  int (*GraphNodeGetType)(void*, int*);
  int (*GraphKernelNodeGetParams)(void*, struct TpKernelNode*);
  int (*GraphChildGraphNodeGetGraph)(void*, void**);
} driver;

static void Lock(void) {
  while (__atomic_test_and_set(&lock_word, __ATOMIC_ACQUIRE)) {
    TpCall(__NR_sched_yield, 0, 0, 0, 0);
  }
}
static void Unlock(void) { __atomic_clear(&lock_word, __ATOMIC_RELEASE); }

static void Record(uint16_t type, uint64_t a, uint64_t b, const void* payload,
                   size_t size) {
  TpRecord(device_file, &dropped, type, instance, a, b, payload, size);
}

static void Problem(const char* what, const char* detail) {
  char text[1024];
  size_t at;
  /* The first ones tell enough. */
  if (__atomic_add_fetch(&problems, 1, __ATOMIC_RELAXED) > 16) return;
  at = TpAppend(text, sizeof(text), 0, what);
  if (detail != NULL && detail[0] != '\0') {
    at = TpAppend(text, sizeof(text), at, ": ");
    at = TpAppend(text, sizeof(text), at, detail);
  }
  Record(TP_RECORD_PROBLEM, 0, 0, text, at);
}

/* ISO C has no conversion from an object to a function pointer. */
static void Find(void* library, const char* name, void* function) {
  void* const found = dlsym(library, name);
  memcpy(function, &found, sizeof(found));
}

/* Makes the file of counts; takes the first free instance of this process. */
static void MapCounts(void) {
  const size_t size = sizeof(struct TraceCount) * TP_TRACE_MAX_KERNELS;
  char path[2304];
  int fd = -TP_EEXIST;
  void* mapped;
  for (instance = 0; instance < 64 && fd == -TP_EEXIST; ++instance) {
    size_t at = TpAppend(path, sizeof(path), 0, folder);
    at = TpAppend(path, sizeof(path), at, "/counts-");
    at = TpAppendNumber(path, sizeof(path), at, TpProcess());
    at = TpAppend(path, sizeof(path), at, "-");
    TpAppendNumber(path, sizeof(path), at, instance + 1);
    fd = TpOpen(path, TP_O_RDWR | TP_O_CREAT | TP_O_EXCL, 0600);
  }
  if (fd < 0) return;
  /* Blocks are there before they are written through the mapping: a full file
   * system would otherwise kill the program. */
  if (TpCall(__NR_fallocate, fd, 0, 0, (long)size) == 0) {
    mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) counts = (struct TraceCount*)mapped;
  }
  TpClose(fd);
}

static uint64_t Hash(const char* name) {
  uint64_t hash = 1469598103934665603u;
  for (; *name != '\0'; ++name) {
    hash = (hash ^ (uint8_t)*name) * 1099511628211u;
  }
  return hash;
}

/* Index of the kernel; a new one is recorded. */
static int32_t KernelIndex(const char* name) {
  const uint64_t hash = Hash(name);
  size_t slot = hash % SLOTS;
  const size_t length = strlen(name);
  int32_t index = NO_KERNEL;
  Lock();
  for (; slots[slot] != 0; slot = (slot + 1) % SLOTS) {
    const int32_t known = slots[slot] - 1;
    if (kernels[known].hash == hash && strcmp(kernels[known].name, name) == 0) {
      index = known;
      break;
    }
  }
  if (index == NO_KERNEL && kernel_count < (int32_t)TP_TRACE_MAX_KERNELS &&
      names_end + length + 1 <= sizeof(names)) {
    memcpy(names + names_end, name, length + 1);
    index = kernel_count++;
    kernels[index].hash = hash;
    kernels[index].name = names + names_end;
    names_end += length + 1;
    slots[slot] = index + 1;
    /* Before the launch: it may be the last thing the process does. */
    Record(TP_RECORD_KERNEL, (uint64_t)index, 0, name, length);
  } else if (index == NO_KERNEL) {
    const uint64_t lost = __atomic_add_fetch(&dropped, 1, __ATOMIC_RELAXED);
    if ((lost & (lost - 1)) == 0) Record(TP_RECORD_DROPPED, lost, 0, "", 0);
  }
  Unlock();
  return index;
}

static void Count(int32_t kernel, int error) {
  if (counts == NULL || kernel < 0) return;
  if (error == 0) {
    __atomic_add_fetch(&counts[kernel].launches, 1, __ATOMIC_RELAXED);
  } else {
    __atomic_add_fetch(&counts[kernel].refused, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&counts[kernel].error, (uint64_t)error, __ATOMIC_RELAXED);
  }
}

/* The compute capability of the GPU that is current at the first launch; runs
 * on GPUs of several kinds are rare, and coverage is by one of them. */
static void NoteDevice(void) {
  int device = 0;
  int major = 0;
  int minor = 0;
  if (__atomic_exchange_n(&device_noted, 1, __ATOMIC_RELAXED) != 0 ||
      driver.CtxGetDevice == NULL || driver.DeviceGetAttribute == NULL ||
      driver.CtxGetDevice(&device) != 0 ||
      driver.DeviceGetAttribute(&major, TP_CU_DEVICE_MAJOR, device) != 0 ||
      driver.DeviceGetAttribute(&minor, TP_CU_DEVICE_MINOR, device) != 0) {
    return;
  }
  Record(TP_RECORD_DEVICE, (uint64_t)major, (uint64_t)minor, "", 0);
}

static const char* NameOfFunction(void* function) {
  const char* name = NULL;
  if (function == NULL) return NULL;
  if (driver.FuncGetName != NULL && driver.FuncGetName(&name, function) == 0) {
    return name;
  }
  name = NULL;
  if (driver.KernelGetName != NULL &&
      driver.KernelGetName(&name, function) == 0) {
    return name;
  }
  return NULL;
}

/* Whether a launch into `stream` becomes a node of a graph. */
static int IsCapturing(void* stream, int per_thread) {
  int state = 0;
  void* const handle =
      stream == NULL && per_thread ? (void*)(uintptr_t)2 : stream;
  return __atomic_load_n(&capture_seen, __ATOMIC_RELAXED) != 0 &&
         driver.StreamIsCapturing != NULL &&
         driver.StreamIsCapturing(handle, &state) == 0 && state != 0;
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
    name = NameOfFunction(FunctionOf(id, data->parameters));
  }
  if (name == NULL || name[0] == '\0') name = "(no name)";
  kernel = KernelIndex(name);
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
  Count(kernel, error);
}

/* Appends the kernels of a graph to `list`. */
static void ListKernels(void* graph, int depth, int32_t** list, size_t* count) {
  size_t node_count = 0;
  void** nodes;
  size_t i;
  if (driver.GraphGetNodes == NULL || driver.GraphNodeGetType == NULL ||
      driver.GraphKernelNodeGetParams == NULL || depth > MAX_GRAPH_DEPTH ||
      driver.GraphGetNodes(graph, NULL, &node_count) != 0 || node_count == 0) {
    return;
  }
  if (node_count > MAX_NODES) {
    Problem("a graph has too many nodes to be listed", "");
    return;
  }
  nodes = (void**)calloc(node_count, sizeof(void*));
  if (nodes == NULL) return;
  if (driver.GraphGetNodes(graph, nodes, &node_count) != 0) node_count = 0;
  for (i = 0; i < node_count; ++i) {
    int type = -1;
    if (driver.GraphNodeGetType(nodes[i], &type) != 0) continue;
    if (type == TP_CU_NODE_GRAPH && driver.GraphChildGraphNodeGetGraph) {
      void* child = NULL;
      if (driver.GraphChildGraphNodeGetGraph(nodes[i], &child) == 0 && child) {
        ListKernels(child, depth + 1, list, count);
      }
    } else if (type == TP_CU_NODE_KERNEL) {
      struct TpKernelNode node;
      const char* name;
      int32_t* longer;
      memset(&node, 0, sizeof(node));
      if (driver.GraphKernelNodeGetParams(nodes[i], &node) != 0) continue;
      name = NameOfFunction(node.function);
      if (name == NULL && node.kernel != NULL && driver.KernelGetName &&
          driver.KernelGetName(&name, node.kernel) != 0) {
        name = NULL;
      }
      if (name == NULL) {
        Problem("a kernel of a graph has no name (the driver is too old)", "");
        continue;
      }
      /* Grown by doubling: at 1, 2, 4, ... it is full. */
      if ((*count & (*count - 1)) == 0) {
        longer = (int32_t*)realloc(
            *list, (*count == 0 ? 1 : *count * 2) * sizeof(int32_t));
        if (longer == NULL) break;
        *list = longer;
      }
      (*list)[(*count)++] = KernelIndex(name);
    }
  }
  free(nodes);
}

/* Remembers what `exec` was made from; the newest graph of a handle counts. */
static void SetGraph(void* exec, void* graph) {
  int32_t* list = NULL;
  size_t count = 0;
  int i;
  int full;
  ListKernels(graph, 0, &list, &count);
  Lock();
  for (i = 0; i < graph_count && graphs[i].exec != exec; ++i) {
    if (graphs[i].exec == NULL) break;
  }
  full = i == MAX_GRAPHS;
  if (!full) {
    if (i == graph_count) ++graph_count;
    free(graphs[i].kernels);
    graphs[i].exec = exec;
    graphs[i].kernels = list;
    graphs[i].count = count;
  }
  Unlock();
  if (full) {
    free(list);
    Problem("there are too many graphs to keep", "");
  }
}

static void ForgetGraph(void* exec) {
  int i;
  Lock();
  for (i = 0; i < graph_count; ++i) {
    if (graphs[i].exec != exec) continue;
    free(graphs[i].kernels);
    --graph_count;
    graphs[i] = graphs[graph_count];
    memset(&graphs[graph_count], 0, sizeof(graphs[0]));
    break;
  }
  Unlock();
}

static void OnGraphLaunch(const struct TpCallback* data) {
  void* const exec = ((const struct TpGraphExec*)data->parameters)->exec;
  const int error = data->result == NULL ? 0 : *(const int*)data->result;
  size_t k;
  int i;
  Lock();
  for (i = 0; i < graph_count; ++i) {
    if (graphs[i].exec != exec) continue;
    for (k = 0; k < graphs[i].count; ++k) Count(graphs[i].kernels[k], error);
    break;
  }
  Unlock();
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
        SetGraph(*made->exec, made->graph);
      return;
    }
    case TP_CU_GRAPH_EXEC_UPDATE:
    case TP_CU_GRAPH_EXEC_UPDATE_2: {
      const struct TpGraphExec* updated =
          (const struct TpGraphExec*)data->parameters;
      if (exit && good) SetGraph(updated->exec, updated->graph);
      return;
    }
    case TP_CU_GRAPH_EXEC_KERNEL_SET:
    case TP_CU_GRAPH_EXEC_KERNEL_SET_2:
      if (exit && good) {
        Problem(
            "a kernel of a finished graph was exchanged; launches of that "
            "graph are counted for the earlier kernel",
            "");
      }
      return;
    case TP_CU_GRAPH_EXEC_DESTROY:
      if (!exit) {
        ForgetGraph(((const struct TpGraphExec*)data->parameters)->exec);
      }
      return;
    case TP_CU_GRAPH_LAUNCH:
    case TP_CU_GRAPH_LAUNCH_PTSZ:
      if (exit) {
        OnGraphLaunch(data);
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
  Count(KernelIndex(name),
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
    Problem("a module was loaded whose bytes CUPTI does not give", "");
    return;
  }
  TpSha256(module->cubin, module->size, digest);
  for (i = 0; i < 32; ++i) {
    hex[i * 2] = kDigits[digest[i] >> 4];
    hex[i * 2 + 1] = kDigits[digest[i] & 15];
  }
  hex[64] = '\0';
  at = TpAppend(path, sizeof(path), 0, folder);
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
  Record(TP_RECORD_MODULE, module->size, (uint64_t)kept, digest,
         sizeof(digest));
}

static void OnCallback(void* user, uint32_t domain, uint32_t id,
                       const void* data) {
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

static void FindDriver(void) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) {
    Problem("the driver's library is not found in the process",
            "graphs and the GPU are not looked at");
    return;
  }
  Find(library, "cuCtxGetDevice", &driver.CtxGetDevice);
  Find(library, "cuDeviceGetAttribute", &driver.DeviceGetAttribute);
  Find(library, "cuStreamIsCapturing", &driver.StreamIsCapturing);
  Find(library, "cuFuncGetName", &driver.FuncGetName);
  Find(library, "cuKernelGetName", &driver.KernelGetName);
  Find(library, "cuGraphGetNodes", &driver.GraphGetNodes);
  Find(library, "cuGraphNodeGetType", &driver.GraphNodeGetType);
  Find(library, "cuGraphKernelNodeGetParams_v2",
       &driver.GraphKernelNodeGetParams);
  Find(library, "cuGraphChildGraphNodeGetGraph",
       &driver.GraphChildGraphNodeGetGraph);
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
      Problem("cuptiEnableCallback failed; the record is not complete", "");
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
    Problem(name, "it is no CUPTI library");
    return 0;
  }
  cupti.GetVersion(&version);
  error = cupti.Subscribe(&subscriber, OnCallback, NULL);
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
    Problem(name, detail);
    return 0;
  }
  /* First: what follows may already come from other threads. */
  Record(TP_RECORD_STARTED, version, 0, name, strlen(name));
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
        Problem("CUPTI does not load", why == NULL ? name : why);
      } else if (Subscribe(library, name)) {
        return;
      }
    }
    paths += length;
    if (*paths == ':') ++paths;
  }
  if (!tried) Problem("no CUPTI library was found on the host", "");
}

EXPORT int InitializeInjection(void);
EXPORT int InitializeInjection(void) {
  static int done;
  const char* named = getenv(TP_TRACE_FOLDER_VARIABLE);
  size_t at;
  if (__atomic_exchange_n(&done, 1, __ATOMIC_ACQ_REL) != 0 || named == NULL ||
      strlen(named) >= sizeof(folder)) {
    return 1;
  }
  TpAppend(folder, sizeof(folder), 0, named);
  at = TpAppend(device_file, sizeof(device_file), 0, folder);
  TpAppend(device_file, sizeof(device_file), at, "/device");
  MapCounts();
  StartCupti();
  /* Behind the record that it started, which settles what went wrong before. */
  if (counts == NULL) Problem("launches are not counted: no file for it", "");
  return 1;
}
