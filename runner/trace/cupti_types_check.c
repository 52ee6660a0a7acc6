/* Compares cupti_types.h with CUPTI's and CUDA's own headers. Compiled, not
 * linked, where a toolkit with them was found. */

/* The parameters of old functions have old types. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
/* CUPTI's headers need <cuda.h> before them. */
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <generated_cuda_meta.h>

#include "runner/trace/cupti_types.h"

#define SAME(ours, theirs) _Static_assert((ours) == (int)(theirs), #theirs)
#define FIELD(ours, our_field, theirs, their_field)                        \
  _Static_assert(                                                          \
      offsetof(struct ours, our_field) == offsetof(theirs, their_field) && \
          sizeof(((struct ours*)0)->our_field) ==                          \
              sizeof(((theirs*)0)->their_field),                           \
      #theirs "." #their_field)

SAME(TP_DOMAIN_DRIVER, CUPTI_CB_DOMAIN_DRIVER_API);
SAME(TP_DOMAIN_RUNTIME, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME(TP_DOMAIN_RESOURCE, CUPTI_CB_DOMAIN_RESOURCE);
SAME(TP_SITE_ENTER, CUPTI_API_ENTER);
SAME(TP_SITE_EXIT, CUPTI_API_EXIT);
SAME(TP_RESOURCE_MODULE_LOADED, CUPTI_CBID_RESOURCE_MODULE_LOADED);

#define DRIVER(ours, name) SAME(ours, CUPTI_DRIVER_TRACE_CBID_##name)
DRIVER(TP_CU_MODULE_GET_FUNCTION, cuModuleGetFunction);
DRIVER(TP_CU_LAUNCH, cuLaunch);
DRIVER(TP_CU_LAUNCH_GRID, cuLaunchGrid);
DRIVER(TP_CU_LAUNCH_GRID_ASYNC, cuLaunchGridAsync);
DRIVER(TP_CU_LAUNCH_KERNEL, cuLaunchKernel);
DRIVER(TP_CU_LAUNCH_KERNEL_PTSZ, cuLaunchKernel_ptsz);
DRIVER(TP_CU_LAUNCH_COOPERATIVE, cuLaunchCooperativeKernel);
DRIVER(TP_CU_LAUNCH_COOPERATIVE_PTSZ, cuLaunchCooperativeKernel_ptsz);
DRIVER(TP_CU_LAUNCH_COOPERATIVE_MULTI, cuLaunchCooperativeKernelMultiDevice);
DRIVER(TP_CU_BEGIN_CAPTURE, cuStreamBeginCapture);
DRIVER(TP_CU_BEGIN_CAPTURE_PTSZ, cuStreamBeginCapture_ptsz);
DRIVER(TP_CU_GRAPH_INSTANTIATE, cuGraphInstantiate);
DRIVER(TP_CU_GRAPH_LAUNCH, cuGraphLaunch);
DRIVER(TP_CU_GRAPH_LAUNCH_PTSZ, cuGraphLaunch_ptsz);
DRIVER(TP_CU_GRAPH_EXEC_DESTROY, cuGraphExecDestroy);
DRIVER(TP_CU_GRAPH_EXEC_KERNEL_SET, cuGraphExecKernelNodeSetParams);
DRIVER(TP_CU_BEGIN_CAPTURE_2, cuStreamBeginCapture_v2);
DRIVER(TP_CU_BEGIN_CAPTURE_2_PTSZ, cuStreamBeginCapture_v2_ptsz);
DRIVER(TP_CU_GRAPH_EXEC_UPDATE, cuGraphExecUpdate);
DRIVER(TP_CU_GRAPH_INSTANTIATE_2, cuGraphInstantiate_v2);
DRIVER(TP_CU_GRAPH_INSTANTIATE_FLAGS, cuGraphInstantiateWithFlags);
DRIVER(TP_CU_LAUNCH_KERNEL_EX, cuLaunchKernelEx);
DRIVER(TP_CU_LAUNCH_KERNEL_EX_PTSZ, cuLaunchKernelEx_ptsz);
DRIVER(TP_CU_LIBRARY_GET_KERNEL, cuLibraryGetKernel);
#if CUDA_VERSION >= 12000
DRIVER(TP_CU_GRAPH_INSTANTIATE_PARAMS, cuGraphInstantiateWithParams);
DRIVER(TP_CU_GRAPH_INSTANTIATE_PARAMS_PTSZ, cuGraphInstantiateWithParams_ptsz);
DRIVER(TP_CU_GRAPH_EXEC_KERNEL_SET_2, cuGraphExecKernelNodeSetParams_v2);
DRIVER(TP_CU_GRAPH_EXEC_UPDATE_2, cuGraphExecUpdate_v2);
#endif
#if CUDA_VERSION >= 12030
DRIVER(TP_CU_BEGIN_CAPTURE_TO_GRAPH, cuStreamBeginCaptureToGraph);
DRIVER(TP_CU_BEGIN_CAPTURE_TO_GRAPH_PTSZ, cuStreamBeginCaptureToGraph_ptsz);
#endif

#define RUNTIME(ours, name) SAME(ours, CUPTI_RUNTIME_TRACE_CBID_##name)
RUNTIME(TP_CUDA_LAUNCH, cudaLaunch_v3020);
RUNTIME(TP_CUDA_LAUNCH_KERNEL, cudaLaunchKernel_v7000);
RUNTIME(TP_CUDA_LAUNCH_PTSZ, cudaLaunch_ptsz_v7000);
RUNTIME(TP_CUDA_LAUNCH_KERNEL_PTSZ, cudaLaunchKernel_ptsz_v7000);
RUNTIME(TP_CUDA_LAUNCH_COOPERATIVE, cudaLaunchCooperativeKernel_v9000);
RUNTIME(TP_CUDA_LAUNCH_COOPERATIVE_PTSZ,
        cudaLaunchCooperativeKernel_ptsz_v9000);
RUNTIME(TP_CUDA_LAUNCH_COOPERATIVE_MULTI,
        cudaLaunchCooperativeKernelMultiDevice_v9000);
RUNTIME(TP_CUDA_LAUNCH_KERNEL_EX, cudaLaunchKernelExC_v11060);
RUNTIME(TP_CUDA_LAUNCH_KERNEL_EX_PTSZ, cudaLaunchKernelExC_ptsz_v11060);
#if CUDA_VERSION >= 13000
RUNTIME(TP_CUDA_LAUNCH_KERNEL_13, __cudaLaunchKernel_v13000);
RUNTIME(TP_CUDA_LAUNCH_KERNEL_13_PTSZ, __cudaLaunchKernel_ptsz_v13000);
#endif

SAME(TP_CU_DEVICE_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(TP_CU_DEVICE_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(TP_CU_NODE_KERNEL, CU_GRAPH_NODE_TYPE_KERNEL);
SAME(TP_CU_NODE_GRAPH, CU_GRAPH_NODE_TYPE_GRAPH);

FIELD(TpCallback, site, CUpti_CallbackData, callbackSite);
FIELD(TpCallback, function, CUpti_CallbackData, functionName);
FIELD(TpCallback, parameters, CUpti_CallbackData, functionParams);
FIELD(TpCallback, result, CUpti_CallbackData, functionReturnValue);
FIELD(TpCallback, symbol, CUpti_CallbackData, symbolName);
FIELD(TpCallback, context, CUpti_CallbackData, context);
FIELD(TpResource, context, CUpti_ResourceData, context);
FIELD(TpResource, descriptor, CUpti_ResourceData, resourceDescriptor);
FIELD(TpModule, size, CUpti_ModuleResourceData, cubinSize);
FIELD(TpModule, cubin, CUpti_ModuleResourceData, pCubin);
FIELD(TpLaunchKernel, function, cuLaunchKernel_params, f);
FIELD(TpLaunchKernel, stream, cuLaunchKernel_params, hStream);
FIELD(TpLaunchKernel, stream, cuLaunchCooperativeKernel_params, hStream);
FIELD(TpLaunchConfig, stream, CUlaunchConfig, hStream);
FIELD(TpLaunchKernelEx, config, cuLaunchKernelEx_params, config);
FIELD(TpLaunchKernelEx, function, cuLaunchKernelEx_params, f);
FIELD(TpGraphInstantiate, exec, cuGraphInstantiate_params, phGraphExec);
FIELD(TpGraphInstantiate, graph, cuGraphInstantiate_params, hGraph);
FIELD(TpGraphInstantiate, exec, cuGraphInstantiate_v2_params, phGraphExec);
FIELD(TpGraphInstantiate, graph, cuGraphInstantiate_v2_params, hGraph);
FIELD(TpGraphInstantiate, exec, cuGraphInstantiateWithFlags_params,
      phGraphExec);
FIELD(TpGraphInstantiate, graph, cuGraphInstantiateWithFlags_params, hGraph);
FIELD(TpGraphExec, exec, cuGraphLaunch_params, hGraph);
FIELD(TpGraphExec, exec, cuGraphExecUpdate_params, hGraphExec);
FIELD(TpGraphExec, graph, cuGraphExecUpdate_params, hGraph);
FIELD(TpGraphExec, exec, cuGraphExecDestroy_params, hGraphExec);
FIELD(TpGetKernel, name, cuLibraryGetKernel_params, name);
FIELD(TpGetKernel, name, cuModuleGetFunction_params, name);
#if CUDA_VERSION >= 12000
FIELD(TpGraphInstantiate, exec, cuGraphInstantiateWithParams_params,
      phGraphExec);
FIELD(TpGraphInstantiate, graph, cuGraphInstantiateWithParams_params, hGraph);
FIELD(TpGraphExec, exec, cuGraphExecUpdate_v2_params, hGraphExec);
FIELD(TpGraphExec, graph, cuGraphExecUpdate_v2_params, hGraph);
FIELD(TpKernelNode, function, CUDA_KERNEL_NODE_PARAMS_v2, func);
FIELD(TpKernelNode, kernel, CUDA_KERNEL_NODE_PARAMS_v2, kern);
_Static_assert(sizeof(struct TpKernelNode) ==
                   sizeof(CUDA_KERNEL_NODE_PARAMS_v2),
               "CUDA_KERNEL_NODE_PARAMS_v2");
#endif
