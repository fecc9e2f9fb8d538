#include "analyzer/reader/gpu_kernel_table.h"

#include "analyzer/names/fold_names.h"

namespace dlhook::analyzer::inline reader {

GpuKernelTable::Names GpuKernelTable::NamesOf(NameIndex mangled) {
  if (mangled == kNone) return {};
  const auto [place, is_new] = by_mangled_.try_emplace(mangled);
  if (is_new) {
    const std::string name = Demangle(model_->names[mangled]);
    place->second = {names_->Name(name), names_->Name(ShortKernelName(name))};
  }
  return place->second;
}

GpuKernelIndex GpuKernelTable::Kernel(const trace::InternedGpuKernel& kernel, NameIndex mangled) {
  const Names names = NamesOf(mangled);
  trace::InternedGpuKernel key = kernel;
  key.set_iid(0);
  key.set_name_iid(names.name);
  const auto next = static_cast<GpuKernelIndex>(model_->gpu_kernels.size());
  const auto [place, is_new] = kernels_.emplace(key.SerializeAsString(), next);
  if (!is_new) return place->second;
  GpuKernel added;
  added.name = names.name;
  added.short_name = names.short_name;
  added.is_collective = names.name != kNone && IsCollectiveKernel(model_->names[names.name]);
  added.grid[0] = kernel.grid_x();
  added.grid[1] = kernel.grid_y();
  added.grid[2] = kernel.grid_z();
  added.block[0] = kernel.block_x();
  added.block[1] = kernel.block_y();
  added.block[2] = kernel.block_z();
  added.registers_per_thread = kernel.registers_per_thread();
  added.static_shared_bytes = kernel.static_shared_bytes();
  added.dynamic_shared_bytes = kernel.dynamic_shared_bytes();
  model_->gpu_kernels.push_back(added);
  return place->second;
}

}  // namespace dlhook::analyzer::reader
