// SPDX-License-Identifier: MIT
//
// Which unroll, block size and cache hint suit this GPU? Also the operator's kernels without
// Python, for compute-sanitizer and ncu.
//
//   nvcc -O3 -lineinfo -std=c++17 -arch=native benchmarks/fused_chain_sweep.cu -o /tmp/sweep
//   /tmp/sweep              GB/s of every variant beside cudaMemcpyAsync's
//   /tmp/sweep check        every tail and misalignment against the host's chain; exit 1 if wrong
//   /tmp/sweep once         the operator's own choice, on 256 Mi and on 8 Mi floats, nothing else
//   compute-sanitizer --tool memcheck|racecheck|initcheck /tmp/sweep check

#define FUSED_CHAIN_KERNELS_ONLY
#include "../fused_chain.cu"

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

using fused_chain::Cache;

#define CUDA(call)                                                                      \
  do {                                                                                  \
    const cudaError_t error = (call);                                                   \
    if (error != cudaSuccess) {                                                         \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error)); \
      std::exit(70);                                                                    \
    }                                                                                   \
  } while (0)

constexpr int64_t kMi = 1 << 20;

template <typename T>
__global__ void fill(T* h, T* residual, int64_t size) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < size;
       i += stride) {
    const uint32_t mixed = static_cast<uint32_t>(i) * 2654435761u;
    h[i] = static_cast<T>(static_cast<float>(mixed >> 8) * (12.0f / (1 << 24)) - 6.0f);
    residual[i] = static_cast<T>(static_cast<float>(mixed & 0xffff) * (4.0f / 65536) - 2.0f);
  }
}

// `sets` triples of buffers that are used in turn, so that no cache holds the next one.
template <typename T>
struct Buffers {
  std::vector<T*> h, residual, out;
  int64_t size;

  Buffers(int64_t size_, int sets) : h(sets), residual(sets), out(sets), size(size_) {
    for (int i = 0; i < sets; ++i) {
      CUDA(cudaMalloc(&h[i], size * sizeof(T)));
      CUDA(cudaMalloc(&residual[i], size * sizeof(T)));
      CUDA(cudaMalloc(&out[i], size * sizeof(T)));
      fill<<<1024, 256>>>(h[i], residual[i], size);
    }
    CUDA(cudaDeviceSynchronize());
  }
  ~Buffers() {
    for (auto* buffers : {&h, &residual, &out}) {
      for (T* buffer : *buffers) cudaFree(buffer);
    }
  }
};

// Median microseconds of one `work(set)`, each sample going once through all sets.
float time_us(int sets, const std::function<void(int)>& work) {
  cudaEvent_t start, end;
  CUDA(cudaEventCreate(&start));
  CUDA(cudaEventCreate(&end));
  std::vector<float> samples;
  for (int sample = 0; sample < 13; ++sample) {
    CUDA(cudaEventRecord(start));
    for (int i = 0; i < sets; ++i) work(i);
    CUDA(cudaEventRecord(end));
    CUDA(cudaEventSynchronize(end));
    float ms;
    CUDA(cudaEventElapsedTime(&ms, start, end));
    if (sample >= 2) samples.push_back(ms * 1000 / sets);
  }
  CUDA(cudaGetLastError());
  CUDA(cudaEventDestroy(start));
  CUDA(cudaEventDestroy(end));
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2];
}

constexpr const char* name_of(Cache cache) {
  return cache == Cache::keep ? "keep" : cache == Cache::keep_h ? "keep_h" : "stream";
}

template <typename T, int kUnroll, Cache cache>
void variant(const char* type, const Buffers<T>& buffers, float copy) {
  cudaFuncAttributes kernel;
  CUDA(cudaFuncGetAttributes(
      &kernel, fused_chain::fused_chain_kernel<T, fused_chain::kVectorBytes / sizeof(T), kUnroll, cache>));
  for (const int threads : {128, 256, 512, 1024}) {
    if (threads > kernel.maxThreadsPerBlock) continue;  // too many registers
    const float us = time_us(static_cast<int>(buffers.h.size()), [&](int i) {
      fused_chain::launch_variant<T, kUnroll, cache>(
          buffers.h[i], buffers.residual[i], buffers.out[i], buffers.size, nullptr, threads);
    });
    const float rate = 3.0f * buffers.size * sizeof(T) / us / 1000;
    std::printf("%s,%lld,%d,%d,%s,%.2f,%.0f,%.4f\n", type, static_cast<long long>(buffers.size),
                kUnroll, threads, name_of(cache), us, rate, rate / copy);
  }
}

template <typename T>
void sweep(const char* type, int64_t size) {
  const int64_t bytes = size * sizeof(T);
  const int sets = static_cast<int>(std::max<int64_t>(2, 1024 * kMi / (3 * bytes)));
  const Buffers<T> buffers(size, sets);
  const float us = time_us(sets, [&](int i) {
    CUDA(cudaMemcpyAsync(buffers.out[i], buffers.h[i], bytes, cudaMemcpyDeviceToDevice));
  });
  const float copy = 2.0f * bytes / us / 1000;
  std::printf("%s,%lld,,,copy,%.2f,%.0f,1\n", type, static_cast<long long>(size), us, copy);
  variant<T, 1, Cache::keep>(type, buffers, copy);
  variant<T, 1, Cache::keep_h>(type, buffers, copy);
  variant<T, 1, Cache::stream>(type, buffers, copy);
  variant<T, 2, Cache::keep>(type, buffers, copy);
  variant<T, 2, Cache::keep_h>(type, buffers, copy);
  variant<T, 2, Cache::stream>(type, buffers, copy);
  variant<T, 4, Cache::keep>(type, buffers, copy);
  variant<T, 4, Cache::keep_h>(type, buffers, copy);
  variant<T, 4, Cache::stream>(type, buffers, copy);
}

// Compares one launch with the host's chain; also that nothing before or after `out` is written.
template <typename T, Cache cache>
bool check(int64_t size, int offset, float tolerance) {
  constexpr int kGuard = 64;
  const int64_t total = size + 2 * kGuard + 16;
  T *h, *residual, *out;
  CUDA(cudaMalloc(&h, total * sizeof(T)));
  CUDA(cudaMalloc(&residual, total * sizeof(T)));
  CUDA(cudaMalloc(&out, total * sizeof(T)));
  fill<<<64, 256>>>(h, residual, total);
  const std::vector<T> guard(total, static_cast<T>(77.0f));
  CUDA(cudaMemcpy(out, guard.data(), total * sizeof(T), cudaMemcpyHostToDevice));
  // A vector-aligned start plus `offset` elements for h only: out and residual stay aligned.
  fused_chain::launch_variant<T, 1, cache>(h + kGuard + offset, residual + kGuard, out + kGuard,
                                           size, nullptr, cache == Cache::keep ? 1024 : 256);
  CUDA(cudaGetLastError());
  std::vector<T> h_host(total), residual_host(total), out_host(total);
  CUDA(cudaMemcpy(h_host.data(), h, total * sizeof(T), cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(residual_host.data(), residual, total * sizeof(T), cudaMemcpyDeviceToHost));
  CUDA(cudaMemcpy(out_host.data(), out, total * sizeof(T), cudaMemcpyDeviceToHost));
  int64_t wrong = 0;
  for (int64_t i = 0; i < total; ++i) {
    const float got = static_cast<float>(out_host[i]);
    float expected = 77.0f;
    if (i >= kGuard && i < kGuard + size) {
      expected = fused_chain::chain(static_cast<float>(h_host[i + offset]),
                                    static_cast<float>(residual_host[i]));
    }
    wrong += !(std::fabs(got - expected) <= 1e-6f + tolerance * std::fabs(expected));
  }
  CUDA(cudaFree(h));
  CUDA(cudaFree(residual));
  CUDA(cudaFree(out));
  if (wrong != 0) {
    std::printf("size %lld, offset %d, %zu-byte elements: %lld wrong\n",
                static_cast<long long>(size), offset, sizeof(T), static_cast<long long>(wrong));
  }
  return wrong == 0;
}

bool check_all() {
  bool good = true;
  std::vector<int64_t> sizes = {511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097,
                                8191, 8192, 8193, 100003};
  for (int64_t size = 1; size <= 33; ++size) sizes.push_back(size);
  for (const int64_t size : sizes) {
    for (const int offset : {0, 1, 3}) {
      good &= check<float, Cache::keep_h>(size, offset, 1e-5f);
      good &= check<float, Cache::keep>(size, offset, 1e-5f);
      good &= check<__nv_bfloat16, Cache::keep_h>(size, offset, 1.0f / 128);
      good &= check<__nv_bfloat16, Cache::keep>(size, offset, 1.0f / 128);
    }
  }
  std::printf(good ? "PASS\n" : "FAIL\n");
  return good;
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "sweep";
  if (std::strcmp(mode, "check") == 0) return check_all() ? 0 : 1;
  if (std::strcmp(mode, "once") == 0) {
    for (const int64_t size : {256 * kMi, 8 * kMi}) {
      const Buffers<float> buffers(size, 1);
      fused_chain::launch(buffers.h[0], buffers.residual[0], buffers.out[0], size, nullptr);
      CUDA(cudaDeviceSynchronize());
    }
    return 0;
  }
  if (std::strcmp(mode, "sweep") != 0) {
    std::fprintf(stderr, "usage: sweep [check|once]\n");
    return 2;
  }
  std::printf("type,elements,unroll,threads,cache,us,gb_per_s,to_copy\n");
  for (const int64_t size : {8 * kMi, 32 * kMi, 128 * kMi, 256 * kMi}) sweep<float>("fp32", size);
  for (const int64_t size : {16 * kMi, 512 * kMi}) sweep<__nv_bfloat16>("bf16", size);
  return 0;
}
