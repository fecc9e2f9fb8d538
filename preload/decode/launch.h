// Kernel launches of the CUDA runtime and driver: arguments -> LaunchShape.
// Thread: any application thread, after the real function has returned. Each decoder needs kLaunchShapeWords and 1 address.
#pragma once

#include "preload/hook_arguments.h"

namespace dlhook::inline decode {

void DecodeLaunch(const LaunchArgs& args, CallRecord* record);
void DecodeDriverLaunch(const DriverLaunchArgs& args, CallRecord* record);
void DecodeLaunchConfig(const LaunchConfigArgs& args, CallRecord* record);

}  // namespace dlhook::inline decode
