// What a self-contained dlhook (DLHOOK_SELF_CONTAINED) takes from here instead of glibc: functions of newer glibcs that
// GCC's static libraries call, so that it runs from glibc 2.34 on, and one that exceptions pass through.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/random.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

struct Search {
  uintptr_t address;
  dl_find_object* result;
};

// dl_iterate_phdr's callback: 1 ends the search.
int FindIn(dl_phdr_info* object, size_t, void* data) {
  const auto& [address, result] = *static_cast<Search*>(data);
  bool is_inside = false;
  *result = {};
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment.p_vaddr;
    if (segment.p_type == DLFO_EH_SEGMENT_TYPE) result->dlfo_eh_frame = reinterpret_cast<void*>(start);
    if (segment.p_type != PT_LOAD || address < start || address - start >= segment.p_memsz) continue;
    is_inside = true;
    result->dlfo_map_start = reinterpret_cast<void*>(start);
    result->dlfo_map_end = reinterpret_cast<void*>(start + segment.p_memsz);
  }
  return is_inside && result->dlfo_eh_frame != nullptr ? 1 : 0;
}

}  // namespace

// glibc 2.35: libgcc's unwinder finds the table of an object with it when an exception is thrown.
extern "C" __attribute__((visibility("hidden"))) int _dl_find_object(void* address, dl_find_object* result) noexcept {
  Search search = {reinterpret_cast<uintptr_t>(address), result};
  return dl_iterate_phdr(FindIn, &search) == 1 ? 0 : -1;
}

// glibc 2.36: of std::random_device.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != sizeof number) abort();
  return number;
}

// std::call_once, whose function may throw: what is derived from a run once, descriptors of libprotobuf. In glibc's, the
// exception of a statically linked unwinder would meet the handlers of the shared libgcc, which abort.
extern "C" int pthread_once(pthread_once_t* control, void (*make)()) {
  enum : pthread_once_t { kNew = PTHREAD_ONCE_INIT, kBeingMade, kMade };
  const std::atomic_ref<pthread_once_t> state(*control);
  for (pthread_once_t is = state.load(); is != kMade; is = state.load()) {
    if (is == kBeingMade) {
      state.wait(kBeingMade);
    } else if (state.compare_exchange_strong(is, kBeingMade)) {
      struct Publish {
        const std::atomic_ref<pthread_once_t>& state;
        pthread_once_t result = kNew;
        ~Publish() {
          state.store(result);
          state.notify_all();
        }
      } publish{state};
      make();
      publish.result = kMade;
    }
  }
  return 0;
}
