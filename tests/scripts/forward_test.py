"""Generated wrappers between a caller and a library: every argument and result arrives as it was passed.

Run: python3 tests/scripts/forward_test.py
"""

import shutil
import unittest

import table_case
from table_case import COMPILER, ROOT, TableTest, run

# Calls between a caller and a library through the wrapper: functions of the argument lists that can go wrong, called as
# C calls them, and a stand-in for the call scope that knows the real functions.
CALLS = """
#include <cstdint>
#include <cstdio>
#include <cstring>
struct dim3 { unsigned x, y, z; };
struct Extent { size_t width, height, depth; };
struct Pitched { void* pointer; size_t pitch, width, height; };
struct Id { char bytes[128]; };
struct Pair { int a, b; };
extern "C" {
int launch(const void*, dim3, dim3, void**, size_t, void*);
int set(Pitched, int, Extent, void*);
int init(void**, int, Id, int);
int prefetch(const void*, size_t, Pair, unsigned, void*);
int fill(unsigned char, unsigned short, unsigned, float, double);
long wide(const void*);
}
int main() {
  void* args[1];
  Id id;
  memset(id.bytes, 'i', sizeof id.bytes);
  int ok = launch(args, {1, 2, 3}, {4, 5, 6}, args, 7, args) == -77;
  ok &= set({args, 1, 2, 3}, 4, {5, 6, 7}, args) == 42;
  ok &= init(args, 2, id, 1) == 43;
  ok &= prefetch(args, 1, {2, 3}, 4, args) == 44;
  ok &= fill(200, 60000, 4000000000u, 1.5f, 2.5) == 45;
  ok &= wide(args) == 0x123456789abc;
  puts(ok ? "forwarded" : "not the same");
  return 0;
}
"""
REAL = """
#include <cstdint>
#include <cstring>
#include "preload/runtime/call_scope.h"
struct dim3 { unsigned x, y, z; };
struct Extent { size_t width, height, depth; };
struct Pitched { void* pointer; size_t pitch, width, height; };
struct Id { char bytes[128]; };
struct Pair { int a, b; };
namespace {
int Launch(const void* f, dim3 g, dim3 b, void** args, size_t n, void* s) {
  return f == args && s == args && g.x == 1 && g.y == 2 && g.z == 3 && b.x == 4 && b.y == 5 && b.z == 6 && n == 7 ? -77 : 1;
}
int Set(Pitched p, int v, Extent e, void* s) {
  return p.pointer == s && p.pitch == 1 && p.width == 2 && p.height == 3 && v == 4 && e.width == 5 && e.height == 6 &&
                 e.depth == 7 ? 42 : 1;
}
int Init(void**, int n, Id id, int r) {
  for (char byte : id.bytes) if (byte != 'i') return 1;
  return n == 2 && r == 1 ? 43 : 1;
}
int Prefetch(const void* p, size_t n, Pair l, unsigned f, void* s) {
  return p == s && n == 1 && l.a == 2 && l.b == 3 && f == 4 ? 44 : 1;
}
int Fill(unsigned char a, unsigned short b, unsigned c, float d, double e) {
  return a == 200 && b == 60000 && c == 4000000000u && d == 1.5f && e == 2.5 ? 45 : 1;
}
long Wide(const void*) { return 0x123456789abc; }
}  // namespace
void* RealOf(int hook) {  // by id: the order of the names
  void* const kReal[] = {(void*)Fill, (void*)Init, (void*)Launch, (void*)Prefetch, (void*)Set, (void*)Wide};
  return kReal[hook];
}
"""
SCOPE = """
#include <cstdint>
void* RealOf(int hook);
namespace dlhook {
struct CallFrame { int unused; };
struct CallRecord { int status; };
enum class RecordType { kCall };
inline void* BeginCall(int hook, unsigned, void*, void*, CallFrame*) { return RealOf(hook); }
inline CallRecord* EndCall(CallFrame*, RecordType, int, int) { static CallRecord record; return &record; }
inline void CommitCall(CallFrame*, CallRecord*) {}
}
"""
CALLED = """
c status launch(ptr function, dim3 grid, dim3 block, ptr* args, size shared_bytes, ptr stream)
c status set(struct32 pitched, int32 value, struct24 extent, ptr stream)
c status init(ptr* comm, int32 nranks, struct128 id, int32 rank)
c status prefetch(ptr dst, size bytes, word location, word flags, word stream, word last) @more(1)
c status fill(byte a, short b, uint32 c, float d, double e)
c size_t wide(ptr p)
"""


@unittest.skipUnless(shutil.which(COMPILER), f'no compiler ({COMPILER})')
class ForwardTest(TableTest):
    def test_arguments_arrive_as_they_were_passed(self):
        self.generate(CALLED)
        scope = self.folder / 'include/preload/runtime'
        scope.mkdir(parents=True)
        (scope / 'call_scope.h').write_text(SCOPE)
        (scope.parent / 'hook_arguments.h').touch()  # no decoders
        (self.folder / 'calls.cc').write_text(CALLS)
        (self.folder / 'real.cc').write_text(REAL)
        sources = [f'hooks_{part}.cc' for part in range(8)] + ['calls.cc', 'real.cc']
        for level in ('-O0', '-O2'):
            built = run(
                [COMPILER, '-std=c++20', level, '-ffixed-r10', f'-I{self.folder}/include', f'-I{ROOT}', *sources, '-o', 'calls'],
                cwd=self.folder,
            )
            self.assertEqual(built.returncode, 0, built.stderr)
            called = run([str(self.folder / 'calls')])
            self.assertEqual((called.returncode, called.stdout), (0, 'forwarded\n'))


if __name__ == '__main__':
    table_case.main()
