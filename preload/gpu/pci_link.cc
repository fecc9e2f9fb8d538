#include <fcntl.h>
#include <stdio.h>

#include "preload/format/identity.h"
#include "preload/gpu/gpu_devices.h"

namespace dlhook::inline gpu {

PciLink SlowestLink(const char* folder) {
  constexpr int kMostPorts = 16;
  PciLink slowest = {};
  char way[256], path[300], line[64];
  int length = snprintf(way, sizeof way - sizeof "/..", "%s", folder);
  for (int port = 0; port < kMostPorts && length > 0 && static_cast<size_t>(length) < sizeof way - sizeof "/..";
       ++port) {
    snprintf(path, sizeof path, "%s/max_link_speed", way);
    ReadFileAt(AT_FDCWD, path, line, sizeof line);
    PciLink link = {LinkGeneration(line), 0, 0};
    snprintf(path, sizeof path, "%s/max_link_width", way);
    ReadFileAt(AT_FDCWD, path, line, sizeof line);
    link.width = static_cast<uint32_t>(strtoul(line, nullptr, 10));
    link.bytes_per_second = LinkBytesPerSecond(link.generation, link.width);
    if (port == 0) slowest = link;
    if (link.bytes_per_second == 0) break;  // the host's bridge has no link
    if (link.bytes_per_second < slowest.bytes_per_second) slowest = link;
    length += snprintf(way + length, sizeof way - static_cast<size_t>(length), "/..");
  }
  return slowest;
}

}  // namespace dlhook::inline gpu
