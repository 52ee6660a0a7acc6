/* The few types and numbers of CUPTI's callback interface and of the driver
 * that twinpath-trace.so uses, so that it builds without a CUDA toolkit.
 * CUPTI promises not to change them ("new callback ids are only added at the
 * end", cupti_callbacks.h); cupti_types_check.c compares them with the real
 * headers where those are present. */

#ifndef TWINPATH_RUNNER_TRACE_CUPTI_TYPES_H_
#define TWINPATH_RUNNER_TRACE_CUPTI_TYPES_H_

#include <stddef.h>
#include <stdint.h>

enum {
  TP_DOMAIN_DRIVER = 1,
  TP_DOMAIN_RUNTIME = 2,
  TP_DOMAIN_RESOURCE = 3,

  TP_SITE_ENTER = 0,
  TP_SITE_EXIT = 1,

  TP_RESOURCE_MODULE_LOADED = 6,

  /* cupti_driver_cbid.h */
  TP_CU_MODULE_GET_FUNCTION = 23,
  TP_CU_LAUNCH = 115,
  TP_CU_LAUNCH_GRID = 116,
  TP_CU_LAUNCH_GRID_ASYNC = 117,
  TP_CU_LAUNCH_KERNEL = 307,
  TP_CU_LAUNCH_KERNEL_PTSZ = 442,
  TP_CU_LAUNCH_COOPERATIVE = 477,
  TP_CU_LAUNCH_COOPERATIVE_PTSZ = 478,
  TP_CU_LAUNCH_COOPERATIVE_MULTI = 480,
  TP_CU_BEGIN_CAPTURE = 495,
  TP_CU_BEGIN_CAPTURE_PTSZ = 496,
  TP_CU_GRAPH_INSTANTIATE = 513,
  TP_CU_GRAPH_LAUNCH = 514,
  TP_CU_GRAPH_LAUNCH_PTSZ = 515,
  TP_CU_GRAPH_EXEC_DESTROY = 516,
  TP_CU_GRAPH_EXEC_KERNEL_SET = 538,
  TP_CU_BEGIN_CAPTURE_2 = 539,
  TP_CU_BEGIN_CAPTURE_2_PTSZ = 540,
  TP_CU_GRAPH_EXEC_UPDATE = 561,
  TP_CU_GRAPH_INSTANTIATE_2 = 578,
  TP_CU_GRAPH_INSTANTIATE_FLAGS = 643,
  TP_CU_LAUNCH_KERNEL_EX = 652,
  TP_CU_LAUNCH_KERNEL_EX_PTSZ = 653,
  TP_CU_GRAPH_INSTANTIATE_PARAMS = 656,
  TP_CU_GRAPH_INSTANTIATE_PARAMS_PTSZ = 657,
  TP_CU_LIBRARY_GET_KERNEL = 681,
  TP_CU_GRAPH_EXEC_KERNEL_SET_2 = 692,
  TP_CU_GRAPH_EXEC_UPDATE_2 = 696,
  TP_CU_BEGIN_CAPTURE_TO_GRAPH = 720,
  TP_CU_BEGIN_CAPTURE_TO_GRAPH_PTSZ = 721,

  /* cupti_runtime_cbid.h */
  TP_CUDA_LAUNCH = 13,
  TP_CUDA_LAUNCH_KERNEL = 211,
  TP_CUDA_LAUNCH_PTSZ = 213,
  TP_CUDA_LAUNCH_KERNEL_PTSZ = 214,
  TP_CUDA_LAUNCH_COOPERATIVE = 269,
  TP_CUDA_LAUNCH_COOPERATIVE_PTSZ = 270,
  TP_CUDA_LAUNCH_COOPERATIVE_MULTI = 272,
  TP_CUDA_LAUNCH_KERNEL_EX = 430,
  TP_CUDA_LAUNCH_KERNEL_EX_PTSZ = 431,
  TP_CUDA_LAUNCH_KERNEL_13 = 505,
  TP_CUDA_LAUNCH_KERNEL_13_PTSZ = 506,

  /* cuda.h */
  TP_CU_DEVICE_MAJOR = 75,
  TP_CU_DEVICE_MINOR = 76,
  TP_CU_NODE_KERNEL = 0,
  TP_CU_NODE_GRAPH = 4
};

/* CUpti_CallbackData */
struct TpCallback {
  int site;
  const char* function;
  const void* parameters;
  void* result; /* CUresult or cudaError_t; valid at exit */
  const char* symbol;
  void* context;
  uint32_t context_uid;
  uint64_t* correlation_data;
  uint32_t correlation_id;
};

/* CUpti_ResourceData */
struct TpResource {
  void* context;
  void* handle;
  void* descriptor;
};

/* CUpti_ModuleResourceData */
struct TpModule {
  uint32_t id;
  size_t size;
  const char* cubin;
};

/* cuLaunchKernel_params, cuLaunchCooperativeKernel_params: up to the stream. */
struct TpLaunchKernel {
  void* function;
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared;
  void* stream;
};

/* CUlaunchConfig, up to the stream. */
struct TpLaunchConfig {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared;
  void* stream;
};

/* cuLaunchKernelEx_params */
struct TpLaunchKernelEx {
  const struct TpLaunchConfig* config;
  void* function;
};

/* cuGraphInstantiate*_params */
struct TpGraphInstantiate {
  void** exec;
  void* graph;
};

/* cuGraphLaunch_params, cuGraphExecUpdate*_params, cuGraphExecDestroy_params:
 * the executable graph, then a stream or the graph it is updated from. */
struct TpGraphExec {
  void* exec;
  void* graph;
};

/* cuLibraryGetKernel_params, cuModuleGetFunction_params */
struct TpGetKernel {
  void** kernel;
  void* container;
  const char* name;
};

/* CUDA_KERNEL_NODE_PARAMS_v2 */
struct TpKernelNode {
  void* function;
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared;
  void** parameters;
  void** extra;
  void* kernel;
  void* context;
};

typedef void (*TpCallbackFunction)(void* user, uint32_t domain, uint32_t id,
                                   const void* data);

#endif /* TWINPATH_RUNNER_TRACE_CUPTI_TYPES_H_ */
