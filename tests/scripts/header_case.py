"""Compares tables with the headers that declare their functions: shared by headers_test.py and
wheel_headers_test.py."""

import re
import shutil

from table_case import COMPILER, ROOT, TABLES, TableTest, gen_hooks, run

import api_tables


class HeaderTest(TableTest):
    def setUp(self):
        if not shutil.which(COMPILER):
            self.skipTest(f'no compiler ({COMPILER})')
        super().setUp()

    def has(self, header, flags):
        return run([COMPILER, *flags, '-E', '-x', 'c++', '-'], input=f'#include "{header}"\n').returncode == 0

    def compiles(self, flags):
        return run(
            [
                COMPILER,
                '-std=c++20',
                '-fsyntax-only',
                '-Wno-deprecated-declarations',
                f'-I{ROOT}',
                *flags,
                str(self.folder / 'abi_check.cc'),
            ]
        )

    def conforming(self, header, tables, flags=()):
        """The hooked functions that the header declares, all of them as in the tables; None without the header."""
        if not self.has(header, flags):
            return None
        command = ' '.join([COMPILER, *flags])
        self.assertEqual(
            gen_hooks.main(['--out', str(self.folder), '--abi', header, '--cc', command, *tables]), 0
        )
        result = self.compiles(flags)
        self.assertEqual(result.returncode, 0, result.stderr[:4000])
        return set(re.findall(r'static_assert\(Conforms<decltype\((\w+)\)', self.output('abi_check.cc')))

    def check_library(self, library, headers, flags=(), variants=((),), old=None, new=None):
        """Each line of the library's table is declared by one of the headers, or its name is in the pattern `old`, or in
        `new` and in none of them.

        `variants`: further flags under which the headers declare more of the names.
        """
        tables = [table for table in TABLES if table.endswith(('/common.api', f'/{library}.api'))]
        hooks = set(api_tables.TableReader().read(tables).hooks)
        found = set()
        for header in headers:
            for variant in variants:
                conforming = self.conforming(header, tables, [*flags, *variant])
                if conforming is None:
                    self.skipTest(f'no {header}')
                found |= conforming
        missing = sorted(name for name in hooks - found if not old or not re.fullmatch(old, name))
        later = {name for name in hooks if new and re.fullmatch(new, name)}
        if not later & found:  # the headers are older
            missing = [name for name in missing if name not in later]
        self.assertEqual(missing, [], f'hooked, but not in {headers}')
        print(f'{library}: {len(found)} of {len(hooks)} functions are declared so by {" ".join(headers)}')
