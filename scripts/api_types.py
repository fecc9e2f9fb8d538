"""The elements of the tables in preload/api: types, letters, and the result of a line.

scripts/api_tables.py parses the tables into these; scripts/gen_hooks.py writes C++ from them.
"""

import dataclasses
import pathlib


class ApiError(Exception):
    """A mistake in a table, with its location."""


@dataclasses.dataclass(frozen=True)
class Type:
    """How a type of the tables is spelled in a wrapper, passed to a decoder and checked against a header."""

    cxx: str  # {int} becomes int32_t or int64_t
    decode: str  # expression for the decoder; '': not usable
    abi: str  # tag in tests/scripts/abi_match.h

    @property
    def member(self):
        """Of the decoder's struct: the type of that expression, wide enough for either integer."""
        made, call, _ = self.decode.partition('(')
        return MADE.get(made) or (made.removeprefix('static_cast<').rstrip('>') if call else self.cxx)


MADE = {'static_cast<{int}>': 'int64_t', 'IntegerAt': 'int64_t', 'CblasOption': 'char', 'FortranOption': 'char'}


# Integers passed by value are forwarded as whole 64-bit words, unchanged whatever the width the library was built for;
# only the decoder uses the width that the name implies (README.md, "Integers").
TYPES = {
    'int': Type('int64_t', 'static_cast<{int}>({name})', 'Int<{bytes}>'),
    'option': Type('int64_t', 'CblasOption({name})', 'Int<{bytes}>'),
    'enum': Type('int64_t', 'CblasOption({name})', 'Enum'),
    'short': Type('int64_t', 'static_cast<int16_t>({name})', 'Int<2>'),
    'byte': Type('int64_t', 'static_cast<int8_t>({name})', 'Int<1>'),
    'float': Type('float', '', 'float'),
    'double': Type('double', '', 'double'),
    'ptr': Type('const void*', '{name}', 'Ptr'),
    'int*': Type('const {int}*', 'IntegerAt({name})', 'PtrTo<Int<{bytes}>>'),
    'char*': Type('const char*', 'FortranOption({name})', 'PtrTo<char>'),
    'ptr[]': Type('const void* const*', '{name}', 'PtrTo<Ptr>'),
    'int[]': Type('const {int}*', 'IntegerArray({name})', 'PtrTo<Int<{bytes}>>'),
    'enum[]': Type('const int32_t*', 'OptionArray({name})', 'PtrTo<Enum>'),
    'char[]': Type('const char*', 'OptionArray({name})', 'PtrTo<char>'),
    # Of a fixed width: for the GPU libraries. Passed to decoders unchanged.
    'int32': Type('int64_t', 'static_cast<int32_t>({name})', 'Int<4>'),
    'uint32': Type('int64_t', 'static_cast<uint32_t>({name})', 'Int<4>'),
    'int64': Type('int64_t', '{name}', 'Eight'),
    'size': Type('uint64_t', '{name}', 'Eight'),
    'code': Type('int64_t', 'static_cast<int32_t>({name})', 'Enum'),
    'word': Type('int64_t', '{name}', 'Word'),
    'dim3': Type('Dim3', '{name}', 'Struct<12>'),
    'struct16': Type('Struct16', '{name}', 'Struct<16>'),
    'struct24': Type('Struct24', '{name}', 'Struct<24>'),
    'struct32': Type('Struct32', '{name}', 'Struct<32>'),
    'struct64': Type('Struct64', '{name}', 'Struct<64>'),
    'struct128': Type('Struct128', '{name}', 'Struct<128>'),
    'int32*': Type('const int32_t*', '{name}', 'PtrTo<Int<4>>'),
    'int64*': Type('const int64_t*', '{name}', 'PtrTo<Int<8>>'),
    'size*': Type('const uint64_t*', '{name}', 'PtrTo<Int<8>>'),
    'text': Type('const char*', '{name}', 'PtrTo<char>'),
    'ptr*': Type('void**', '{name}', 'PtrToPtr'),
    # The driver's device addresses are integers in its headers, pointers for a decoder.
    'address': Type('const void*', '{name}', 'Address'),
    'address*': Type('void**', '{name}', 'PtrTo<Address>'),
    'address[]': Type('const void* const*', '{name}', 'PtrTo<Address>'),
}
RETURN_TYPES = {
    'void': ('void', 'void'),
    'size_t': ('uint64_t', 'Eight'),
    'ptr': ('void*', 'AnyPtr'),
    'status': ('int32_t', 'Int<4>'),  # 0 for success; stored in the record
    'int32': ('int32_t', 'Int<4>'),
}
CHARACTER_TYPES = ('char*', 'char[]')  # each has a length, appended by Fortran callers


@dataclasses.dataclass(frozen=True)
class Letter:
    """The meaning of a precision letter."""

    data_type: str
    scalar: str  # type of a scalar passed by value: complex ones are passed by address
    real: str  # of the real scalars of her(2)k


LETTERS = {
    's': Letter('f32', 'float', 'float'),
    'd': Letter('f64', 'double', 'double'),
    'c': Letter('c32', 'ptr', 'float'),
    'z': Letter('c64', 'ptr', 'double'),
}
# The GPU libraries write them in upper case and have half precision, too.
LETTERS.update({letter.upper(): value for letter, value in LETTERS.items()})
LETTERS['H'] = Letter('f16', 'ptr', 'float')
BYTES = {'i32': 4, 'i64': 8}
# What a wrapper provides besides the parameters: the real function's address, the return address of the call; as (type,
# expression).
CONTEXT = {
    'real': ('const void*', 'reinterpret_cast<void*>(real)'),
    'caller': ('void*', '__builtin_return_address(0)'),
}

# The functions of preload/runtime/call_scope.h that begin a call.
BEGIN = ('BeginCall', 'BeginFrequentCall')

# Kinds of `work` lines: the parameter with the stream, and its meaning in preload/gpu/event_calls.h.
WORK = {
    'none': ('', ''),
    'stream': ('stream', 'kStream'),
    'launch_config': ('config', 'kLaunchConfig'),
    'cublas': ('handle', 'kCublas'),
    'cudnn': ('handle', 'kCudnn'),
    'cusparse': ('handle', 'kCusparse'),
    'cusolver_dense': ('handle', 'kCusolverDn'),
    'cusolver_sparse': ('handle', 'kCusolverSp'),
    'collective': ('stream', 'kCollective'),
    'group_begin': ('', 'kGroupBegin'),
    'group_end': ('', 'kGroupEnd'),
    'ends_context': ('context', 'kEndsContext'),
    'ends_device': ('', 'kEndsDevice'),
}


@dataclasses.dataclass(frozen=True)
class Place:
    path: str
    line: int

    def __str__(self):
        return f'{pathlib.PurePath(self.path).name}:{self.line}'

    def error(self, message):
        return ApiError(f'{self.path}:{self.line}: {message}')


@dataclasses.dataclass(frozen=True)
class Field:
    """A parameter that a decoder or tracker takes."""

    required: bool
    default: str  # where a hook lacks it; '': zero


@dataclasses.dataclass(frozen=True)
class Decoder:
    function: str
    record: str
    words: str
    addresses: str
    fields: dict  # name -> Field
    constants: dict = dataclasses.field(default_factory=dict)  # name -> (C++ type, default or '')
    ignore: frozenset = frozenset()  # parameters that it does not use; '*': all that are not fields
    context: tuple = ()  # from CONTEXT: what it gets besides parameters
    begin: str = 'BeginCall'  # from BEGIN
    room: str = ''  # of preload/, whose namespace its function is in
    header: str = ''  # of an inline function; of others hook_arguments.h has the declaration


@dataclasses.dataclass(frozen=True)
class Tracker:
    """A function that is informed of each call, recorded or not."""

    function: str
    fields: dict = dataclasses.field(default_factory=dict)  # name -> Field
    context: tuple = ()  # from CONTEXT; always includes the real function's address
    room: str = ''
    header: str = ''


@dataclasses.dataclass(frozen=True)
class Hook:
    symbol: str
    width: str  # of the library's integers: i32 or i64
    returns: str
    parameters: tuple  # of (type, name), with scalar and real resolved
    family: str
    decoder: str  # '' for a call that is only timed
    constants: tuple  # of (name, C++ value)
    tracker: str  # '' for none
    work: tuple  # (enumerator of EventWork, parameter or '') of a call that causes GPU work; (): none
    more: int  # number of parameters at the end that only some versions of the library have
    library: str
    place: Place


@dataclasses.dataclass(frozen=True)
class DriverVariant:
    """The result of cuGetProcAddress(base, since or later, flags)."""

    base: str
    per_thread: bool  # for the per-thread default stream: _ptsz, _ptds
    since: int
    symbol: str


@dataclasses.dataclass
class Api:
    families: dict = dataclasses.field(default_factory=dict)  # name -> captured by default
    decoders: dict = dataclasses.field(default_factory=dict)  # name -> Decoder
    trackers: dict = dataclasses.field(default_factory=dict)  # name -> Tracker
    variants: dict = dataclasses.field(default_factory=dict)  # (base, per_thread, since) -> DriverVariant
    newest_driver: int = 0  # CUDA version up to which the variants are complete
    sonames: dict = dataclasses.field(default_factory=dict)  # (library, width) -> [soname]
    hooks: dict = dataclasses.field(default_factory=dict)  # symbol -> Hook

    def sorted_hooks(self):
        return [self.hooks[name] for name in sorted(self.hooks, key=lambda name: name.encode())]
