/* A CUDA driver and a CUPTI that are none, for the tests of tracing: compiled
 * twice, with FAKE_CUPTI as libcupti.so.13, without as libcuda.so.1. The driver
 * loads the injection library as the real one does and tells CUPTI's subscriber
 * of each call, before and after. Functions are handles to their own names. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runner/trace/cupti_types.h"

#define EXPORT __attribute__((visibility("default")))

#ifdef FAKE_CUPTI

static TpCallbackFunction callback;
static char enabled[4][1024];

EXPORT int cuptiGetVersion(uint32_t* version) {
  *version = 26;
  return 0;
}
EXPORT int cuptiSubscribe(void** subscriber, TpCallbackFunction function,
                          void* user) {
  const char* error = getenv("FAKE_CUPTI_ERROR");
  (void)user;
  if (error != NULL) return atoi(error);
  callback = function;
  *subscriber = &callback;
  return 0;
}
EXPORT int cuptiEnableCallback(uint32_t enable, void* subscriber,
                               uint32_t domain, uint32_t id) {
  if (subscriber != &callback || domain > 3 || id >= 1024) return 1;
  enabled[domain][id] = (char)enable;
  return 0;
}
EXPORT int cuptiGetResultString(int error, const char** text) {
  (void)error;
  *text = "CUPTI_ERROR_OF_THE_TEST";
  return 0;
}
EXPORT void FakeCuptiFire(uint32_t domain, uint32_t id, const void* data) {
  if (callback != NULL && enabled[domain][id]) callback(NULL, domain, id, data);
}

#else /* the driver */

struct Graph {
  size_t count;
  void* nodes[64]; /* a name, or `captured` */
};

static int capturing;
static struct Graph captured;

static void Fire(uint32_t domain, uint32_t id, const void* data) {
  static void (*fire)(uint32_t, uint32_t, const void*);
  if (fire == NULL) {
    void* cupti = dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD);
    void* found = cupti == NULL ? NULL : dlsym(cupti, "FakeCuptiFire");
    if (found == NULL) return;
    memcpy(&fire, &found, sizeof(found));
  }
  fire(domain, id, data);
}

static void Call(uint32_t domain, uint32_t id, int site, const void* parameters,
                 const char* symbol, int* result) {
  struct TpCallback data;
  memset(&data, 0, sizeof(data));
  data.site = site;
  data.parameters = parameters;
  data.symbol = symbol;
  data.result = result;
  Fire(domain, id, &data);
}

EXPORT int cuInit(unsigned flags) {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  void* library;
  void* found;
  int (*start)(void);
  (void)flags;
  if (path == NULL || (library = dlopen(path, RTLD_NOW)) == NULL ||
      (found = dlsym(library, "InitializeInjection")) == NULL) {
    return 0;
  }
  memcpy(&start, &found, sizeof(found));
  start();
  return 0;
}
EXPORT int cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
EXPORT int cuDeviceGetAttribute(int* value, int attribute, int device) {
  (void)device;
  *value = attribute == TP_CU_DEVICE_MAJOR ? 9 : 0;
  return 0;
}
EXPORT int cuStreamIsCapturing(void* stream, int* state) {
  (void)stream;
  *state = capturing;
  return 0;
}
EXPORT int cuFuncGetName(const char** name, void* function) {
  *name = (const char*)function;
  return 0;
}

/* The rest has names of its own: only the test program calls it. */
EXPORT void FakeLoadModule(const void* cubin, size_t size) {
  struct TpModule module;
  struct TpResource resource;
  memset(&resource, 0, sizeof(resource));
  module.id = 1;
  module.size = size;
  module.cubin = (const char*)cubin;
  resource.descriptor = &module;
  Fire(TP_DOMAIN_RESOURCE, TP_RESOURCE_MODULE_LOADED, &resource);
}

EXPORT int FakeLaunch(const char* name, int error, int crash) {
  struct TpLaunchKernel parameters;
  const uint32_t id = TP_CU_LAUNCH_KERNEL;
  memset(&parameters, 0, sizeof(parameters));
  parameters.function = (void*)(uintptr_t)name;
  Call(TP_DOMAIN_DRIVER, id, TP_SITE_ENTER, &parameters, name, NULL);
  if (crash) abort();
  if (capturing && error == 0) {
    captured.nodes[captured.count++] = (void*)(uintptr_t)name;
  }
  Call(TP_DOMAIN_DRIVER, id, TP_SITE_EXIT, &parameters, name, &error);
  return error;
}

/* As the runtime does where no image fits: the launch never gets to the
 * driver's. */
EXPORT int FakeRuntimeLaunch(const char* name, int error) {
  struct TpGetKernel lookup;
  memset(&lookup, 0, sizeof(lookup));
  lookup.name = name;
  Call(TP_DOMAIN_RUNTIME, TP_CUDA_LAUNCH_KERNEL, TP_SITE_ENTER, &lookup, NULL,
       NULL);
  if (error != 0) {
    Call(TP_DOMAIN_DRIVER, TP_CU_LIBRARY_GET_KERNEL, TP_SITE_EXIT, &lookup,
         NULL, &error);
  } else {
    FakeLaunch(name, 0, 0);
  }
  Call(TP_DOMAIN_RUNTIME, TP_CUDA_LAUNCH_KERNEL, TP_SITE_EXIT, &lookup, NULL,
       &error);
  return error;
}

EXPORT void FakeBeginCapture(void) {
  int result = 0;
  char parameters[64] = {0};
  Call(TP_DOMAIN_DRIVER, TP_CU_BEGIN_CAPTURE_2, TP_SITE_EXIT, parameters, NULL,
       &result);
  capturing = 1;
}

/* Ends the capture, makes it a child of a graph, and launches that. */
EXPORT void FakeEndCaptureAndLaunch(int launches) {
  static struct Graph parent;
  void* exec = &exec;
  struct TpGraphInstantiate made;
  struct TpGraphExec launch;
  int result = 0;
  capturing = 0;
  parent.count = 1;
  parent.nodes[0] = &captured;
  made.exec = &exec;
  made.graph = &parent;
  launch.exec = exec;
  launch.graph = NULL;
  Call(TP_DOMAIN_DRIVER, TP_CU_GRAPH_INSTANTIATE_FLAGS, TP_SITE_EXIT, &made,
       NULL, &result);
  for (; launches > 0; --launches) {
    Call(TP_DOMAIN_DRIVER, TP_CU_GRAPH_LAUNCH, TP_SITE_ENTER, &launch, NULL,
         NULL);
    Call(TP_DOMAIN_DRIVER, TP_CU_GRAPH_LAUNCH, TP_SITE_EXIT, &launch, NULL,
         &result);
  }
}
EXPORT int cuGraphGetNodes(void* graph, void** nodes, size_t* count) {
  struct Graph* from = (struct Graph*)graph;
  if (nodes != NULL) memcpy(nodes, from->nodes, from->count * sizeof(void*));
  *count = from->count;
  return 0;
}
EXPORT int cuGraphNodeGetType(void* node, int* type) {
  *type = node == &captured ? TP_CU_NODE_GRAPH : TP_CU_NODE_KERNEL;
  return 0;
}
EXPORT int cuGraphKernelNodeGetParams_v2(void* node, struct TpKernelNode* out) {
  out->function = node;
  return 0;
}
EXPORT int cuGraphChildGraphNodeGetGraph(void* node, void** graph) {
  *graph = node;
  return 0;
}

#endif
