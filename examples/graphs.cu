// SPDX-License-Identifier: MIT
// CUDA graphs that are harder to attribute than one graph captured and replayed.
//
//     nvcc -O2 -std=c++17 -arch=native -rdc=true examples/graphs.cu -o graphs -lcudadevrt
//     harness run --nsys --no-torch --graphs node -o reports/graphs -- ./graphs nested
//
// Cases: nested, reinstantiated, several, conditional, device-launch. The comment of each says how
// many kernels run under each range; what is instantiated or warmed up is outside of all of them.
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                                    \
  do {                                                                                 \
    cudaError_t status = (call);                                                       \
    if (status != cudaSuccess) {                                                       \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      std::exit(1);                                                                    \
    }                                                                                  \
  } while (0)

constexpr int kRounds = 4;

__global__ void inner_kernel(float* x) { x[threadIdx.x] += 1; }
__global__ void middle_kernel(float* x) { x[threadIdx.x] *= 2; }
__global__ void outer_kernel(float* x) { x[threadIdx.x] -= 1; }
__global__ void other_kernel(float* x) { x[threadIdx.x] *= 3; }

struct Range {
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
};

cudaStream_t new_stream() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

float* new_buffer() {
  float* data;
  CHECK(cudaMalloc(&data, 32 * sizeof(float)));
  CHECK(cudaMemset(data, 0, 32 * sizeof(float)));
  return data;
}

// What `fill` enqueues on the stream it is given, as a graph.
template <typename Fill>
cudaGraph_t captured(const char* name, Fill fill) {
  cudaStream_t stream = new_stream();
  cudaGraph_t graph;
  Range range(name);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  fill(stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

cudaGraphExec_t instantiated(cudaGraph_t graph) {
  cudaGraphExec_t exec;
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  return exec;
}

void replay(const char* name, cudaGraphExec_t exec, cudaStream_t stream, int rounds = kRounds) {
  for (int i = 0; i < rounds; ++i) {
    Range range(name);
    CHECK(cudaGraphLaunch(exec, stream));
  }
  CHECK(cudaStreamSynchronize(stream));
}

cudaGraphNode_t add_child(cudaGraph_t graph, cudaGraph_t child) {
  cudaGraphNode_t node;
  CHECK(cudaGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
  return node;
}

// replay-nested, 4 instances of one launch each: outer_kernel 1, middle_kernel 1 and inner_kernel 2 a
// replay (inner is a child of middle, middle a child of outer). capture-*: no kernel runs.
void nested() {
  float *a = new_buffer(), *b = new_buffer(), *c = new_buffer();
  cudaGraph_t inner = captured("capture-inner", [&](cudaStream_t s) {
    inner_kernel<<<1, 32, 0, s>>>(a);
    inner_kernel<<<1, 32, 0, s>>>(a);
  });
  cudaGraph_t middle = captured("capture-middle", [&](cudaStream_t s) { middle_kernel<<<1, 32, 0, s>>>(b); });
  add_child(middle, inner);
  cudaGraph_t outer = captured("capture-outer", [&](cudaStream_t s) { outer_kernel<<<1, 32, 0, s>>>(c); });
  add_child(outer, middle);
  cudaGraphExec_t exec = instantiated(outer);
  replay("replay-nested", exec, new_stream());
}

// One graph of 2 kernels, instantiated twice and the second updated from a graph of the same shape:
// replay-first, replay-second and replay-updated each 4 instances of 2 kernels (inner and middle; inner
// and middle; the update's: other and outer).
void reinstantiated() {
  float* a = new_buffer();
  cudaStream_t stream = new_stream();
  cudaGraph_t graph = captured("capture", [&](cudaStream_t s) {
    inner_kernel<<<1, 32, 0, s>>>(a);
    middle_kernel<<<1, 32, 0, s>>>(a);
  });
  cudaGraphExec_t first = instantiated(graph);
  replay("replay-first", first, stream);
  cudaGraphExec_t second = instantiated(graph);
  replay("replay-second", second, stream);
  CHECK(cudaGraphExecDestroy(first));
  cudaGraph_t changed = captured("capture-changed", [&](cudaStream_t s) {
    other_kernel<<<1, 32, 0, s>>>(a);
    outer_kernel<<<1, 32, 0, s>>>(a);
  });
  cudaGraphExecUpdateResultInfo info;
  CHECK(cudaGraphExecUpdate(second, changed, &info));
  replay("replay-updated", second, stream);
}

// Two graphs in turn on two streams: replay-one 4 instances of 3 inner kernels, replay-two 4 of one
// other_kernel; eager, 4 of one outer_kernel, between them.
void several() {
  float *a = new_buffer(), *b = new_buffer(), *c = new_buffer();
  cudaGraphExec_t one = instantiated(captured("capture-one", [&](cudaStream_t s) {
    for (int i = 0; i < 3; ++i) inner_kernel<<<1, 32, 0, s>>>(a);
  }));
  cudaGraphExec_t two = instantiated(
      captured("capture-two", [&](cudaStream_t s) { other_kernel<<<1, 32, 0, s>>>(b); }));
  cudaStream_t left = new_stream(), right = new_stream();
  for (int i = 0; i < kRounds; ++i) {
    {
      Range range("replay-one");
      CHECK(cudaGraphLaunch(one, left));
    }
    {
      Range range("replay-two");
      CHECK(cudaGraphLaunch(two, right));
    }
    Range range("eager");
    outer_kernel<<<1, 32, 0, left>>>(c);
  }
  CHECK(cudaDeviceSynchronize());
}

__global__ void count_down(cudaGraphConditionalHandle handle, int* left) {
  cudaGraphSetConditional(handle, --*left > 0);
}

// A while node whose body (inner_kernel, then count_down) runs 3 times. replay-conditional, one
// instance: inner_kernel 3, count_down 3.
void conditional() {
  float* a = new_buffer();
  int *left, three = 3;
  CHECK(cudaMalloc(&left, sizeof(int)));
  CHECK(cudaMemcpy(left, &three, sizeof(int), cudaMemcpyHostToDevice));
  cudaGraph_t graph;
  CHECK(cudaGraphCreate(&graph, 0));
  cudaGraphConditionalHandle handle;
  CHECK(cudaGraphConditionalHandleCreate(&handle, graph, 1, cudaGraphCondAssignDefault));
  cudaGraphNodeParams params = {};
  params.type = cudaGraphNodeTypeConditional;
  params.conditional.handle = handle;
  params.conditional.type = cudaGraphCondTypeWhile;
  params.conditional.size = 1;
  cudaGraphNode_t node;
#if CUDART_VERSION >= 13000
  CHECK(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &params));
#else
  CHECK(cudaGraphAddNode(&node, graph, nullptr, 0, &params));
#endif
  cudaStream_t stream = new_stream();
  {
    Range range("capture-body");
    CHECK(cudaStreamBeginCaptureToGraph(stream, params.conditional.phGraph_out[0], nullptr, nullptr, 0,
                                        cudaStreamCaptureModeThreadLocal));
    inner_kernel<<<1, 32, 0, stream>>>(a);
    count_down<<<1, 1, 0, stream>>>(handle, left);
    cudaGraph_t body;
    CHECK(cudaStreamEndCapture(stream, &body));
  }
  replay("replay-conditional", instantiated(graph), stream, 1);
}

__global__ void launches(cudaGraphExec_t exec) {
  if (threadIdx.x == 0) cudaGraphLaunch(exec, cudaStreamGraphFireAndForget);
}

// A graph of one kernel (launches) that starts a second graph (inner, other) from the device.
// replay-launcher, 4 instances: launches 1, inner_kernel 1 and other_kernel 1 a replay, as far as the
// profiler records what the device launched.
void device_launch() {
  float* a = new_buffer();
  cudaStream_t stream = new_stream();
  cudaGraph_t payload = captured("capture-payload", [&](cudaStream_t s) {
    inner_kernel<<<1, 32, 0, s>>>(a);
    other_kernel<<<1, 32, 0, s>>>(a);
  });
  cudaGraphExec_t on_device;
  CHECK(cudaGraphInstantiate(&on_device, payload, cudaGraphInstantiateFlagDeviceLaunch));
  CHECK(cudaGraphUpload(on_device, stream));
  cudaGraphExec_t launcher = instantiated(
      captured("capture-launcher", [&](cudaStream_t s) { launches<<<1, 32, 0, s>>>(on_device); }));
  for (int i = 0; i < kRounds; ++i) {
    Range range("replay-launcher");
    CHECK(cudaGraphLaunch(launcher, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
}

int main(int argc, char** argv) {
  struct {
    const char* name;
    void (*run)();
  } cases[] = {{"nested", nested},           {"reinstantiated", reinstantiated}, {"several", several},
               {"conditional", conditional}, {"device-launch", device_launch}};
  for (auto& item : cases) {
    if (argc == 2 && std::strcmp(argv[1], item.name) == 0) {
      item.run();
      CHECK(cudaDeviceSynchronize());
      CHECK(cudaGetLastError());
      return 0;
    }
  }
  std::fprintf(stderr, "usage: graphs nested|reinstantiated|several|conditional|device-launch\n");
  return 2;
}
