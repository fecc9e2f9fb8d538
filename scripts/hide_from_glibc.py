#!/usr/bin/env python3
"""Hides dynamic symbols after linking, which the linker would leave out: scripts/hide_from_glibc.py libdlhook.so NAME...

What for: preload/base/other_loaders.S.
"""

import struct
import sys

DYNSYM = 11
HIDDEN = 2
SYMBOL_BYTES = 24


def main(path, *names):
    wanted = {name.encode() for name in names}
    with open(path, "r+b") as file:
        data = file.read()
        (table,), (size, count) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<HH", data, 58)
        # name, type, flags, address, offset, bytes, link, …
        sections = [struct.unpack_from("<IIQQQQI", data, table + i * size) for i in range(count)]
        (_, _, _, _, symbols, symbol_bytes, strings), = (section for section in sections if section[1] == DYNSYM)
        for at in range(symbols, symbols + symbol_bytes, SYMBOL_BYTES):
            start = sections[strings][4] + struct.unpack_from("<I", data, at)[0]
            name = data[start:data.index(b"\0", start)]
            if name in wanted:
                wanted.remove(name)
                file.seek(at + 5)
                file.write(bytes([HIDDEN]))
    if wanted:
        sys.exit(f"{path}: no dynamic symbols {wanted}")


if __name__ == "__main__":
    main(*sys.argv[1:])
