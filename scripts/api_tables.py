"""Reads preload/api/*.api, whose syntax preload/api/README.md describes, into an Api of hooks.

Every mistake is an ApiError that says file:line, what was found and what was expected.
"""

import dataclasses
import pathlib
import re


class ApiError(Exception):
    """A mistake in a table, with its place."""


# --- What tables are made of ---------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Type:
    """How a type of the tables is spelled in a wrapper, handed to a decoder and checked against a header."""

    cxx: str  # {int} becomes int32_t or int64_t
    decode: str  # expression for the decoder; '': of no use to one
    abi: str  # tag in tests/scripts/abi_match.h


# Integers passed by value travel as whole 64-bit words: the bits are forwarded unchanged whatever the width the
# library was built for, and only the decoder looks at the width that the name promises (README.md, "Integers").
TYPES = {
    'int': Type('int64_t', 'static_cast<{int}>({name})', 'Int<{bytes}>'),
    'option': Type('int64_t', 'CblasOption({name})', 'Int<{bytes}>'),
    'enum': Type('int64_t', 'CblasOption({name})', 'Enum'),
    'short': Type('int64_t', '', 'Int<2>'),
    'byte': Type('int64_t', '', 'Int<1>'),
    'float': Type('float', '', 'float'),
    'double': Type('double', '', 'double'),
    'ptr': Type('const void*', '{name}', 'Ptr'),
    'int*': Type('const {int}*', 'IntegerAt({name})', 'PtrTo<Int<{bytes}>>'),
    'char*': Type('const char*', 'FortranOption({name})', 'PtrTo<char>'),
    'ptr[]': Type('const void* const*', '{name}', 'PtrTo<Ptr>'),
    'int[]': Type('const {int}*', 'IntegerArray({name})', 'PtrTo<Int<{bytes}>>'),
    'enum[]': Type('const int32_t*', 'OptionArray({name})', 'PtrTo<Enum>'),
    'char[]': Type('const char*', 'OptionArray({name})', 'PtrTo<char>'),
}
RETURN_TYPES = {'void': ('void', 'void'), 'size_t': ('uint64_t', 'Int<8>'), 'ptr': ('void*', 'Ptr')}
CHARACTER_TYPES = ('char*', 'char[]')  # each has a length, appended by Fortran callers


@dataclasses.dataclass(frozen=True)
class Letter:
    """What a precision letter stands for."""

    data_type: str
    scalar: str  # type of a scalar passed by value: complex ones go by address
    real: str  # of the real scalars of her(2)k


LETTERS = {
    's': Letter('f32', 'float', 'float'),
    'd': Letter('f64', 'double', 'double'),
    'c': Letter('c32', 'ptr', 'float'),
    'z': Letter('c64', 'ptr', 'double'),
}
BYTES = {'i32': 4, 'i64': 8}


@dataclasses.dataclass(frozen=True)
class Place:
    path: str
    line: int

    def __str__(self):
        return f'{pathlib.PurePath(self.path).name}:{self.line}'

    def error(self, message):
        return ApiError(f'{self.path}:{self.line}: {message}')


@dataclasses.dataclass(frozen=True)
class Decoder:
    header: str
    function: str
    args: str
    record: str
    words: str
    addresses: str
    fields: dict  # name -> required
    constants: dict  # name -> (C++ type, default or '')
    ignore: frozenset


@dataclasses.dataclass(frozen=True)
class Hook:
    symbol: str
    width: str  # of the library's integers: i32 or i64
    letter: str
    returns: str
    parameters: tuple  # of (type, name), with scalar and real resolved
    family: str
    decoder: str  # '' for a call that is only timed
    constants: tuple  # of (name, C++ value)
    library: str
    place: Place


@dataclasses.dataclass
class Api:
    families: dict = dataclasses.field(default_factory=dict)  # name -> description
    decoders: dict = dataclasses.field(default_factory=dict)  # name -> Decoder
    sonames: dict = dataclasses.field(default_factory=dict)  # (library, width) -> [soname]
    hooks: dict = dataclasses.field(default_factory=dict)  # symbol -> Hook

    def sorted_hooks(self):
        return [self.hooks[name] for name in sorted(self.hooks, key=lambda name: name.encode())]


# --- Reading -------------------------------------------------------------------------------------------------------

PROTOTYPE = re.compile(
    r'(?P<spelling>\w+) +(?P<returns>[\w*]+) +(?P<name>[\w{}]+)\((?P<parameters>[^()]*)\)'
    r'(?P<attributes>( *@\w+\([^()]*\))*)'
)
ATTRIBUTE = re.compile(r'@(\w+)\(([^()]*)\)')
LETTER_SET = re.compile(r'\{([a-z]+)\}')


def logical_lines(path):
    """(Place, text) of each line that says something; a line that begins with a blank continues the one before."""
    lines = []
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            text = line.split('#', 1)[0].rstrip()
            if not text:
                continue
            if text[0].isspace():
                if not lines:
                    raise Place(path, number).error('a continuation line has nothing to continue')
                lines[-1][1] += ' ' + text.strip()
            else:
                lines.append([Place(path, number), text])
    return lines


def split_pairs(text, separator, place):
    """'a=1 b=2' as a dict."""
    pairs = {}
    for word in text.replace(separator, ' ').split():
        key, equals, value = word.partition('=')
        if not equals or not value:
            raise place.error(f"found '{word}', expected key=value")
        pairs[key] = value
    return pairs


class TableReader:
    """Reads the tables into an Api: declarations of all files first, so that the order of files does not matter."""

    def __init__(self):
        self.api = Api()

    def read(self, paths):
        files = [(path, logical_lines(path)) for path in paths]
        for _, lines in files:
            for place, text in lines:
                keyword, _, rest = text.partition(' ')
                if keyword == 'family':
                    self.read_family(place, rest.strip())
                elif keyword == 'decoder':
                    self.read_decoder(place, rest)
        for _, lines in files:
            self.read_library(lines)
        return self.api

    def read_family(self, place, name):
        if not re.fullmatch(r'[a-z]\w*', name) or name in self.api.families:
            raise place.error(f"found family '{name}', expected one new lower-case name")
        self.api.families[name] = place
        if len(self.api.families) > 32:
            raise place.error('found a 33rd family, expected at most 32: they are bits of a mask')

    def read_decoder(self, place, text):
        name, _, rest = text.strip().partition(' ')
        values = split_pairs(rest, ' ', place)
        keys = [field.name for field in dataclasses.fields(Decoder)]
        if sorted(values) != sorted(keys):
            raise place.error(
                f"decoder '{name}' has {' '.join(sorted(values))}, expected {' '.join(sorted(keys))}"
            )
        values['fields'] = {
            field.rstrip('?'): not field.endswith('?') for field in values['fields'].split(',')
        }
        constants = split_pairs(values['constants'].replace(':', '='), ',', place)
        values['constants'] = {
            key: tuple((value + '=').split('=')[:2]) for key, value in constants.items()
        }
        values['ignore'] = frozenset(values['ignore'].split(','))
        self.api.decoders[name] = Decoder(**values)

    def read_library(self, lines):
        library = section = ''
        spellings = {}
        for place, text in lines:
            keyword, *words = text.split()
            if keyword in ('family', 'decoder'):
                continue
            if keyword == 'library' and len(words) == 1:
                library = words[0]
            elif keyword == 'soname' and len(words) > 1 and words[0] in BYTES:
                self.api.sonames[library, words[0]] = words[1:]
            elif keyword == 'spelling' and len(words) > 2:
                spellings[words[0]] = read_spelling(words[1:], place)
            elif keyword == 'section' and len(words) == 1:
                section = self.known('family', self.api.families, words[0], place)
            elif '(' in text:
                self.read_prototype(place, text, library, section, spellings)
            else:
                raise place.error(
                    f"found '{text}', expected library, soname i32|i64, spelling, section, family, "
                    'decoder or a prototype'
                )

    @staticmethod
    def known(what, table, name, place):
        if name not in table:
            raise place.error(
                f"found {what} '{name}', expected one of: {', '.join(table) or 'none is declared'}"
            )
        return name

    def read_prototype(self, place, text, library, section, spellings):
        match = PROTOTYPE.fullmatch(text)
        if not match:
            raise place.error(
                f"found '{text}', expected: SPELLING RETURN NAME(TYPE NAME, …) [@decode(…)] [@family(…)]"
            )
        if not library or not section:
            raise place.error(
                'found a prototype, expected a library line and a section line before it'
            )
        self.known('spelling', spellings, match['spelling'], place)
        self.known('return type', RETURN_TYPES, match['returns'], place)
        attributes = dict(ATTRIBUTE.findall(match['attributes']))
        for attribute in attributes:
            self.known('attribute', ('decode', 'family'), attribute, place)
        family = self.known('family', self.api.families, attributes.get('family', section), place)
        parameters = read_parameters(match['parameters'], place)
        for letter, name in expand_letters(match['name'], place):
            resolved = tuple(
                (resolve_type(kind, letter, place), parameter) for kind, parameter in parameters
            )
            decoder, constants = self.read_decode(
                attributes.get('decode', ''), resolved, letter, place
            )
            for width, pattern in spellings[match['spelling']]:
                hook = Hook(
                    pattern.replace('{}', name),
                    width,
                    letter,
                    match['returns'],
                    resolved,
                    family,
                    decoder,
                    constants,
                    library,
                    place,
                )
                self.add(hook)

    def read_decode(self, text, parameters, letter, place):
        if not text:
            return '', ()
        name, _, rest = text.partition(',')
        decoder = self.api.decoders[self.known('decoder', self.api.decoders, name.strip(), place)]
        given = split_pairs(rest, ' ', place)
        for key in given:
            self.known(f'constant of decoder {name}', decoder.constants, key, place)
        names = [parameter for _, parameter in parameters]
        for field, required in decoder.fields.items():
            if required and field not in names:
                raise place.error(f"found no parameter '{field}', which decoder {name} expects")
        for kind, parameter in parameters:
            if parameter not in decoder.ignore:
                self.known(
                    f'parameter that decoder {name} does not know,',
                    decoder.fields,
                    parameter,
                    place,
                )
                if not TYPES[kind].decode:
                    raise place.error(
                        f"found '{kind} {parameter}', expected a type that decoder {name} can use"
                    )
        return name, tuple(
            (key, constant(key, kind, given.get(key, default), letter, place))
            for key, (kind, default) in decoder.constants.items()
        )

    def add(self, hook):
        if not re.fullmatch(r'[A-Za-z_]\w*', hook.symbol):
            raise hook.place.error(f"found the symbol '{hook.symbol}', expected a C identifier")
        if hook.symbol in self.api.hooks:
            raise hook.place.error(
                f"found '{hook.symbol}' again, first in {self.api.hooks[hook.symbol].place}"
            )
        if (hook.library, hook.width) not in self.api.sonames:
            raise hook.place.error(
                f"found no 'soname {hook.width}' of library {hook.library} before this line"
            )
        self.api.hooks[hook.symbol] = hook


def read_spelling(words, place):
    """[(width, pattern)] of 'i32 {}_ i64 {}_64_'."""
    result, width = [], ''
    for word in words:
        if word in BYTES:
            width = word
        elif width and word.count('{}') == 1:
            result.append((width, word))
        else:
            raise place.error(
                f"found '{word}', expected i32 or i64 and then names with {{}} in them"
            )
    return result


def read_parameters(text, place):
    parameters = []
    for parameter in filter(None, (part.strip() for part in text.split(','))):
        words = parameter.split()
        if len(words) != 2 or not re.fullmatch(r'[a-z]\w*', words[1]):
            raise place.error(f"found parameter '{parameter}', expected TYPE NAME")
        if words[0] not in TYPES and words[0] not in ('scalar', 'real'):
            raise place.error(
                f"found type '{words[0]}', expected one of: {' '.join(TYPES)} scalar real"
            )
        parameters.append((words[0], words[1]))
    names = [name for _, name in parameters]
    if len(set(names)) != len(names):
        raise place.error('found two parameters of one name')
    return parameters


def expand_letters(name, place):
    """('s', 'sgemm'), ('d', 'dgemm') of '{sd}gemm'; ('', name) of a name without letters."""
    match = LETTER_SET.search(name)
    if not match:
        return [('', name)]
    for letter in match[1]:
        TableReader.known('letter', LETTERS, letter, place)
    return [(letter, name[: match.start()] + letter + name[match.end() :]) for letter in match[1]]


def resolve_type(kind, letter, place):
    if kind not in ('scalar', 'real'):
        return kind
    if not letter:
        raise place.error(f"found type '{kind}', which needs a name with {{sdcz}} in it")
    return getattr(LETTERS[letter], kind)


def constant(key, kind, value, letter, place):
    """The C++ value of a decoder's constant: bf16 of type DataType is DataType::kBf16."""
    if not value and kind == 'DataType' and letter:
        value = LETTERS[letter].data_type
    if not value:
        raise place.error(f"found no '{key}=', expected a {kind}")
    return value if kind == 'bool' else f'{kind}::k{value[0].upper()}{value[1:]}'
