// Names of cuBLAS and cuBLASLt enumerators: lower case, without the enum's common prefix. A number that the headers
// (cublas_api.h and cublasLt.h of cuBLAS 13.1) do not name remains a number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dlhook::analyzer::inline ops {

// cublasGemmAlgo_t: "gemm_default", "gemm_algo7_tensor_op".
std::string GemmAlgorithmName(int32_t algorithm);

// cublasComputeType_t ("32f", "32f_fast_tf32"), or before CUDA 11 cudaDataType ("f32"); empty for -1.
std::string ComputeTypeName(int32_t compute_type);

// cublasMath_t: "default", "tf32_tensor_op", with its flag "tf32_tensor_op+disallow_reduced_precision_reduction"; empty
// for -1.
std::string MathModeName(int32_t math_mode);

// The operations of a cublasLtEpilogue_t after the product, in order: {"bias", "gelu_aux"}; {} for none.
std::vector<std::string> EpilogueNames(uint32_t epilogue);

std::string LtTileName(uint32_t tile);         // "128x64"
std::string LtStagesName(uint32_t stages);     // "32x4"
std::string LtClusterName(uint32_t cluster);   // "2x1x1"; "0" for auto
std::string LtInnerShapeName(uint32_t shape);  // "mma16816"
std::string LtOrderName(uint32_t order);       // "col", "col32"
// How a matrix of this type is scaled, by its format's common name if it has one: "mxfp8", "nvfp4", "outer"; empty for 0.
std::string LtScaleModeName(uint32_t mode, int bits);

}  // namespace dlhook::analyzer::ops
