/* Executable graphs and the kernels in them. */

#include <stdlib.h>
#include <string.h>

#include "runner/trace/record.h"
#include "runner/trace/trace_parts.h"

#define MAX_GRAPHS 4096
#define MAX_NODES ((size_t)1 << 20)
#define MAX_GRAPH_DEPTH 8

/* Guarded by the lock. */
static struct {
  void* exec;
  int32_t* kernels;
  size_t count;
} graphs[MAX_GRAPHS];
static int graph_count;

/* Appends the kernels of a graph to `list`. */
static void ListKernels(void* graph, int depth, int32_t** list, size_t* count) {
  size_t node_count = 0;
  void** nodes;
  size_t i;
  if (tp_driver.GraphGetNodes == NULL || tp_driver.GraphNodeGetType == NULL ||
      tp_driver.GraphKernelNodeGetParams == NULL || depth > MAX_GRAPH_DEPTH ||
      tp_driver.GraphGetNodes(graph, NULL, &node_count) != 0 ||
      node_count == 0) {
    return;
  }
  if (node_count > MAX_NODES) {
    TpTraceProblem("a graph has too many nodes to be listed", "");
    return;
  }
  nodes = (void**)calloc(node_count, sizeof(void*));
  if (nodes == NULL) return;
  if (tp_driver.GraphGetNodes(graph, nodes, &node_count) != 0) node_count = 0;
  for (i = 0; i < node_count; ++i) {
    int type = -1;
    if (tp_driver.GraphNodeGetType(nodes[i], &type) != 0) continue;
    if (type == TP_CU_NODE_GRAPH && tp_driver.GraphChildGraphNodeGetGraph) {
      void* child = NULL;
      if (tp_driver.GraphChildGraphNodeGetGraph(nodes[i], &child) == 0 &&
          child) {
        ListKernels(child, depth + 1, list, count);
      }
    } else if (type == TP_CU_NODE_KERNEL) {
      struct TpKernelNode node;
      const char* name;
      int32_t* longer;
      memset(&node, 0, sizeof(node));
      if (tp_driver.GraphKernelNodeGetParams(nodes[i], &node) != 0) continue;
      name = TpNameOfFunction(node.function);
      if (name == NULL && node.kernel != NULL && tp_driver.KernelGetName &&
          tp_driver.KernelGetName(&name, node.kernel) != 0) {
        name = NULL;
      }
      if (name == NULL) {
        TpTraceProblem(
            "a kernel of a graph has no name (the driver is too old)", "");
        continue;
      }
      /* Grown by doubling: at 1, 2, 4, ... it is full. */
      if ((*count & (*count - 1)) == 0) {
        longer = (int32_t*)realloc(
            *list, (*count == 0 ? 1 : *count * 2) * sizeof(int32_t));
        if (longer == NULL) break;
        *list = longer;
      }
      (*list)[(*count)++] = TpKernelIndex(name);
    }
  }
  free(nodes);
}

void TpSetGraph(void* exec, void* graph) {
  int32_t* list = NULL;
  size_t count = 0;
  int i;
  int full;
  ListKernels(graph, 0, &list, &count);
  TpTraceLock();
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
  TpTraceUnlock();
  if (full) {
    free(list);
    TpTraceProblem("there are too many graphs to keep", "");
  }
}

void TpForgetGraph(void* exec) {
  int i;
  TpTraceLock();
  for (i = 0; i < graph_count; ++i) {
    if (graphs[i].exec != exec) continue;
    free(graphs[i].kernels);
    --graph_count;
    graphs[i] = graphs[graph_count];
    memset(&graphs[graph_count], 0, sizeof(graphs[0]));
    break;
  }
  TpTraceUnlock();
}

void TpCountGraph(void* exec, int error) {
  size_t k;
  int i;
  TpTraceLock();
  for (i = 0; i < graph_count; ++i) {
    if (graphs[i].exec != exec) continue;
    for (k = 0; k < graphs[i].count; ++k) TpCount(graphs[i].kernels[k], error);
    break;
  }
  TpTraceUnlock();
}
