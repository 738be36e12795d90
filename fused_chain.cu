// SPDX-License-Identifier: MIT
//
// out = clamp(gelu_tanh(h * 1.5 - 0.25) + residual, -6, 3), in one pass: two reads, one write.
//
// As torch.ops.harness.fused_chain(h, residual), built by workload/extension.py:
//   with nvcc       CUDA, CPU and Meta kernels     nvcc -O3 -lineinfo fused_chain.cu
//   as plain C++    CPU and Meta kernels           g++ -O3 -x c++ fused_chain.cu
// With -DFUSED_CHAIN_KERNELS_ONLY the kernels come without torch (benchmarks/fused_chain_sweep.cu).
//
// Arithmetic is fp32 for every dtype. With u = sqrt(2/pi) * (y + 0.044715 y^3),
//   gelu_tanh(y) = y/2 * (1 + tanh(u)) = y / (1 + exp(-2u))
// and the right-hand side has no cancellation, so approximate exp2 and reciprocal instructions
// (2 ulp and 1 ulp) are enough for 1e-6; tanhf would cost three times the instructions.

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#ifdef __CUDACC__
#define CHAIN_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define CHAIN_HOST_DEVICE inline
#endif

namespace fused_chain {

constexpr float kScale = 1.5f;
constexpr float kShift = -0.25f;
constexpr float kLow = -6.0f;
constexpr float kHigh = 3.0f;
// -2 sqrt(2/pi) log2(e): exp(-2u) as a power of two.
constexpr float kExponent = -2.3022081981f;
constexpr float kCubic = 0.044715f;

// 1 / (1 + 2^x), for any x: 0 when 2^x overflows, NaN for NaN.
CHAIN_HOST_DEVICE float logistic2(float x) {
#ifdef __CUDA_ARCH__
  // ftz on both: what flushes is below 2^-126 beside a 1.
  float power, result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(1.0f + power));
  return result;
#else
  // 2^x = 2^n * 2^f with |f| <= 1/2, written without calls or branches so that g++ vectorises it.
  const float bounded = x > 128.0f ? 128.0f : (x < -127.0f ? -127.0f : x);  // keeps NaN
  const float shifted = bounded + 12582912.0f;                              // 1.5 * 2^23: rounds
  const float f = bounded - (shifted - 12582912.0f);
  float p = 1.5403530394e-4f;  // Taylor of 2^f: its error is below 1 ulp on [-1/2, 1/2]
  p = p * f + 1.3333558146e-3f;
  p = p * f + 9.6181291076e-3f;
  p = p * f + 5.5504108665e-2f;
  p = p * f + 2.4022650696e-1f;
  p = p * f + 6.9314718056e-1f;
  p = p * f + 1.0f;
  uint32_t bits;  // of 2^n: n = 128 gives inf, n = -127 gives 0
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits - 0x4B400000u + 127u) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return 1.0f / (1.0f + power * p);
#endif
}

// Clamps as torch does: NaN stays NaN.
CHAIN_HOST_DEVICE float clamp(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(value), "f"(kLow));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(result) : "f"(kHigh));
  return result;
#else
  value = value < kLow ? kLow : value;
  return value > kHigh ? kHigh : value;
#endif
}

// The whole chain for one element: the same function on the host and on the device.
CHAIN_HOST_DEVICE float chain(float h, float residual) {
  const float y = h * kScale + kShift;
  const float exponent = y * (kExponent * kCubic * (y * y) + kExponent);
  return clamp(y * logistic2(exponent) + residual);
}

#ifdef __CUDACC__

constexpr int kVectorBytes = 16;  // the widest load of one thread before sm_100

template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  T element[N];
};

// Which lines the L2 may evict first: none, those of residual and out, all.
enum class Cache { keep, keep_h, stream };

// Raw 16-byte (or one-element) moves.
template <bool evict_first, typename V>
__device__ __forceinline__ V load(const V* from) {
  if constexpr (sizeof(V) == kVectorBytes) {
    const auto* address = reinterpret_cast<const uint4*>(from);
    const uint4 bits = evict_first ? __ldcs(address) : __ldg(address);
    V value;
    memcpy(&value, &bits, sizeof(V));
    return value;
  } else {
    return *from;
  }
}

template <bool evict_first, typename V>
__device__ __forceinline__ void store(V* to, const V& value) {
  if constexpr (sizeof(V) == kVectorBytes) {
    uint4 bits;
    memcpy(&bits, &value, sizeof(V));
    auto* address = reinterpret_cast<uint4*>(to);
    if (evict_first) {
      __stcs(address, bits);
    } else {
      *address = bits;
    }
  } else {
    *to = value;
  }
}

template <typename T, int N>
__device__ __forceinline__ Vector<T, N> chain(const Vector<T, N>& h, const Vector<T, N>& residual) {
  Vector<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    out.element[i] = static_cast<T>(
        chain(static_cast<float>(h.element[i]), static_cast<float>(residual.element[i])));
  }
  return out;
}

// One block does one tile of blockDim.x * kUnroll vectors. All 2 * kUnroll loads of a thread are
// issued before the first is used: bytes in flight, not arithmetic, are what DRAM waits for. One
// vector a thread is enough when the registers (23 to 32) let all of a multiprocessor's 2048 threads
// live: 64 KiB in flight.
// The last block also does the up to N - 1 elements that fill no vector.
template <typename T, int N, int kUnroll, Cache cache>
__global__ void fused_chain_kernel(const T* __restrict__ h, const T* __restrict__ residual,
                                   T* __restrict__ out, int64_t size) {
  using V = Vector<T, N>;
  const auto* h_vectors = reinterpret_cast<const V*>(h);
  const auto* residual_vectors = reinterpret_cast<const V*>(residual);
  auto* out_vectors = reinterpret_cast<V*>(out);
  const int64_t vectors = size / N;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x * kUnroll + threadIdx.x;
  V a[kUnroll], b[kUnroll];

  if (first - threadIdx.x + static_cast<int64_t>(blockDim.x) * kUnroll <= vectors) {
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      a[k] = load<cache == Cache::stream>(h_vectors + first + k * blockDim.x);
      b[k] = load<cache != Cache::keep>(residual_vectors + first + k * blockDim.x);
    }
#pragma unroll
    for (int k = 0; k < kUnroll; ++k) {
      store<cache != Cache::keep>(out_vectors + first + k * blockDim.x, chain(a[k], b[k]));
    }
    return;
  }

#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    if (first + k * blockDim.x < vectors) {
      a[k] = load<cache == Cache::stream>(h_vectors + first + k * blockDim.x);
      b[k] = load<cache != Cache::keep>(residual_vectors + first + k * blockDim.x);
    }
  }
#pragma unroll
  for (int k = 0; k < kUnroll; ++k) {
    if (first + k * blockDim.x < vectors) {
      store<cache != Cache::keep>(out_vectors + first + k * blockDim.x, chain(a[k], b[k]));
    }
  }
  const int64_t rest = vectors * N + threadIdx.x;
  if (blockIdx.x == gridDim.x - 1 && rest < size) {
    out[rest] = static_cast<T>(chain(static_cast<float>(h[rest]), static_cast<float>(residual[rest])));
  }
}

// Queues one kernel on `stream` of the current device; size > 0. Pointers not aligned to 16 bytes are
// served element by element.
template <typename T, int kUnroll, Cache cache>
void launch_variant(const T* h, const T* residual, T* out, int64_t size, cudaStream_t stream,
                    int threads) {
  const auto addresses = reinterpret_cast<uintptr_t>(h) | reinterpret_cast<uintptr_t>(residual) |
                         reinterpret_cast<uintptr_t>(out);
  const auto blocks = [size](int64_t tile) {
    return static_cast<unsigned>((size + tile - 1) / tile);
  };
  if (addresses % kVectorBytes == 0) {
    constexpr int N = kVectorBytes / sizeof(T);
    fused_chain_kernel<T, N, kUnroll, cache>
        <<<blocks(int64_t{N} * kUnroll * threads), threads, 0, stream>>>(h, residual, out, size);
  } else {
    constexpr int kNarrow = 256;  // threads: this kernel's registers do not fit 1024 everywhere
    fused_chain_kernel<T, 1, 8, Cache::keep>
        <<<blocks(8 * kNarrow), kNarrow, 0, stream>>>(h, residual, out, size);
  }
}

inline int64_t l2_bytes() {
  int device = 0, bytes = 0;
  const bool known = cudaGetDevice(&device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device) == cudaSuccess;
  return known ? bytes : 0;
}

// Queues the variant that suits the size, as measured on an H200 (docs/notes/fused_chain.md). Where
// a tensor fits the L2, h is often still there, just written by the operator before: it stays until
// it is read when residual and out are evicted first. Beyond that size the hints gain nothing.
template <typename T>
void launch(const T* h, const T* residual, T* out, int64_t size, cudaStream_t stream) {
  if (size * static_cast<int64_t>(sizeof(T)) <= l2_bytes()) {
    launch_variant<T, 1, Cache::keep_h>(h, residual, out, size, stream, 256);
  } else {
    launch_variant<T, 1, Cache::keep>(h, residual, out, size, stream, 1024);
  }
}

#endif  // __CUDACC__

}  // namespace fused_chain

#ifndef FUSED_CHAIN_KERNELS_ONLY

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#ifdef __CUDACC__
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#endif

namespace fused_chain {

using at::Tensor;

// Sizes as text, also in the symbolic shapes of a trace. (Streaming a SymIntArrayRef from code that
// nvcc 13.0 compiled crashed under torch 2.11.)
std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (const auto& size : tensor.sym_sizes()) {
    const auto known = size.maybe_as_int();
    text += (text.size() > 1 ? ", " : "") + (known ? std::to_string(*known) : std::string("?"));
  }
  return text + "]";
}

void check(const Tensor& h, const Tensor& residual) {
  const auto dtype = h.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf,
              "fused_chain: dtype must be float32, bfloat16 or float16, but h is ", dtype);
  TORCH_CHECK(residual.scalar_type() == dtype, "fused_chain: h is ", dtype, " but residual is ",
              residual.scalar_type(), "; they must have one dtype");
  TORCH_CHECK(h.sym_sizes() == residual.sym_sizes(), "fused_chain: h has shape ", shape_of(h),
              " but residual has ", shape_of(residual), "; there is no broadcasting");
  TORCH_CHECK(h.device() == residual.device(), "fused_chain: h is on ", h.device(),
              " but residual is on ", residual.device());
  TORCH_CHECK(h.is_contiguous(), "fused_chain: h must be contiguous; pass h.contiguous()");
  TORCH_CHECK(residual.is_contiguous(),
              "fused_chain: residual must be contiguous; pass residual.contiguous()");
}

// Calls f with a null pointer of the C++ type of `dtype`, one of the three that check() admits.
template <typename F>
void with_type(at::ScalarType dtype, const F& f) {
  switch (dtype) {
    case at::kFloat:
      return f(static_cast<float*>(nullptr));
    case at::kBFloat16:
      return f(static_cast<at::BFloat16*>(nullptr));
    default:
      return f(static_cast<at::Half*>(nullptr));
  }
}

template <typename T>
void chain_span(const T* __restrict__ h, const T* __restrict__ residual, T* __restrict__ out,
                int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    out[i] = static_cast<T>(chain(static_cast<float>(h[i]), static_cast<float>(residual[i])));
  }
}

Tensor run_cpu(const Tensor& h, const Tensor& residual) {
  check(h, residual);
  Tensor out = at::empty_like(h);
  with_type(h.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* h_data = h.const_data_ptr<T>();
    const T* residual_data = residual.const_data_ptr<T>();
    T* out_data = out.mutable_data_ptr<T>();
    at::parallel_for(0, h.numel(), at::internal::GRAIN_SIZE, [&](int64_t begin, int64_t end) {
      chain_span(h_data + begin, residual_data + begin, out_data + begin, end - begin);
    });
  });
  return out;
}

Tensor run_meta(const Tensor& h, const Tensor& residual) {
  check(h, residual);
  return at::empty_symint(h.sym_sizes(), h.options());
}

#ifdef __CUDACC__
Tensor run_cuda(const Tensor& h, const Tensor& residual) {
  check(h, residual);
  const c10::cuda::CUDAGuard guard(h.device());
  Tensor out = at::empty_like(h);
  if (h.numel() == 0) {
    return out;
  }
  const auto stream = c10::cuda::getCurrentCUDAStream();
  with_type(h.scalar_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    launch<T>(h.const_data_ptr<T>(), residual.const_data_ptr<T>(), out.mutable_data_ptr<T>(),
              h.numel(), stream);
  });
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
#endif

#ifdef __CUDACC__
constexpr const char* kKernels = "for the CPU and for CUDA";
#else
constexpr const char* kKernels = "for the CPU only";
#endif

// What no kernel above takes: a layout that is not dense, another device, CUDA in a build without it.
Tensor refuse(const Tensor& h, const Tensor& residual) {
  TORCH_CHECK(h.layout() == at::kStrided, "fused_chain: h has layout ", h.layout(),
              "; pass h.to_dense()");
  TORCH_CHECK(residual.layout() == at::kStrided, "fused_chain: residual has layout ",
              residual.layout(), "; pass residual.to_dense()");
  TORCH_CHECK(false, "fused_chain: h is on ", h.device(), " and residual on ", residual.device(),
              "; this build has kernels ", kKernels);
  return h;
}

Tensor below_autograd(const Tensor& h, const Tensor& residual) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("harness::fused_chain", "")
                             .typed<Tensor(const Tensor&, const Tensor&)>();
  const at::AutoDispatchBelowADInplaceOrView guard;
  return op.call(h, residual);
}

// y = h * 1.5 - 0.25 and gelu_tanh(y) + residual, in fp32, each step differentiable.
std::pair<Tensor, Tensor> with_aten(const Tensor& h, const Tensor& residual) {
  const Tensor y = h.to(at::kFloat) * kScale + kShift;
  return {y, at::gelu(y, "tanh") + residual.to(at::kFloat)};
}

// The backward pass recomputes the chain from its inputs with ATen operators (in fp32), so it can
// be differentiated again; it is here to be right, only the forward pass is fast.
struct Differentiable : torch::autograd::Function<Differentiable> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& h,
                        const Tensor& residual) {
    context->save_for_backward({h, residual});
    return below_autograd(h, residual);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const auto saved = context->get_saved_variables();
    const auto dtype = saved[0].scalar_type();
    const auto [y, sum] = with_aten(saved[0], saved[1]);
    const Tensor inside = at::logical_and(sum.ge(kLow), sum.le(kHigh));
    const Tensor grad = grads[0].to(at::kFloat) * inside;
    return {(at::gelu_backward(grad, y, "tanh") * kScale).to(dtype), grad.to(dtype)};
  }
};

// Forward-mode derivatives come from ATen's operators: a C++ Function has none, and below autograd
// the tangent would be lost without a word.
Tensor run_dual(const Tensor& h, const Tensor& residual) {
  check(h, residual);
  const Tensor sum = with_aten(h, residual).second;
  return at::clamp(sum, at::Scalar(kLow), at::Scalar(kHigh)).to(h.scalar_type());
}

Tensor run_autograd(const Tensor& h, const Tensor& residual) {
  constexpr uint64_t kLevel = 0;  // the only one that PyTorch has
  if (h._fw_grad(kLevel).defined() || residual._fw_grad(kLevel).defined()) {
    return run_dual(h, residual);
  }
  const bool wanted = at::GradMode::is_enabled() && (h.requires_grad() || residual.requires_grad());
  return wanted ? Differentiable::apply(h, residual) : below_autograd(h, residual);
}

}  // namespace fused_chain

TORCH_LIBRARY(harness, m) {
  m.def("fused_chain(Tensor h, Tensor residual) -> Tensor", {at::Tag::pt2_compliant_tag});
}

TORCH_LIBRARY_IMPL(harness, CompositeExplicitAutograd, m) {
  m.impl("fused_chain", fused_chain::refuse);
}
TORCH_LIBRARY_IMPL(harness, CPU, m) { m.impl("fused_chain", fused_chain::run_cpu); }
TORCH_LIBRARY_IMPL(harness, Meta, m) { m.impl("fused_chain", fused_chain::run_meta); }
TORCH_LIBRARY_IMPL(harness, Autograd, m) { m.impl("fused_chain", fused_chain::run_autograd); }
#ifdef __CUDACC__
TORCH_LIBRARY_IMPL(harness, CUDA, m) { m.impl("fused_chain", fused_chain::run_cuda); }
#endif

#endif  // FUSED_CHAIN_KERNELS_ONLY
