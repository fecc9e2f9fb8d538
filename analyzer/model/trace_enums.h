// The enumerations of a trace by the names that tables use: generated from proto/ at build time, without libprotobuf.
// EnumName() of a value is its name in the schema in lower case ("host_to_device"); "" for a number that this schema
// does not know. FromProto() converts those of libprotobuf's messages.
#pragma once

#include "proto/enums.h"

namespace dlhook::analyzer::inline model {

using AggregateCause = fields::CallAggregate::Cause;
using AllocationKind = fields::Allocation::Kind;
using CapabilityState = fields::Capability::State;
using Chooser = fields::Chooser;
using ClockKind = fields::Clock::Kind;
using CollectiveKind = fields::Collective::Kind;
using CopyDirection = fields::Copy::Direction;
using CompiledKind = fields::CompiledCode::Kind;
using CompiledPart = fields::CompiledCode::Part;
using CounterKind = fields::CounterBatch::Kind;
using CounterSource = fields::CounterBatch::Source;
using DataType = fields::DataType;
using GemmKind = fields::Gemm::Kind;
using GpuActivityKind = fields::GpuActivityBatch::Kind;
using GpuTimeSource = fields::GpuTimeSource;
using HostMemory = fields::Copy::HostMemory;
using LossReason = fields::Loss::Reason;
using MappingRole = fields::Mapping::Role;
using MatrixKind = fields::MatrixOp::Kind;
using ProcessEnd = fields::Footer::End;
using SampleState = fields::SampleBatch::State;
using ScopeKind = fields::ScopeBatch::Kind;
using StackCut = fields::InternedStack::Cut;
using TensorRole = fields::CudnnTensor::Role;
using TimeSource = fields::TimeSource;
using fields::FromProto;

// Of an enumeration of our own, of which kLast is the last value: the name of `value` among those of all.
template <auto kLast, size_t kNames>
constexpr const char* NameIn(decltype(kLast) value, const char* const (&names)[kNames]) {
  static_assert(kNames == static_cast<size_t>(kLast) + 1);
  return names[static_cast<size_t>(value)];
}

}  // namespace dlhook::analyzer::model
