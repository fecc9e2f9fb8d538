"""Parses preload/api/*.api (syntax: preload/api/README.md) into an Api of hooks.

Every mistake is an ApiError with file:line, what was found and what was expected.
"""

import dataclasses
import re

from api_types import BEGIN, BYTES, CONTEXT, LETTERS, RETURN_TYPES, TYPES, WORK, Api, Decoder, DriverVariant, Field, Hook, Place, Tracker

PROTOTYPE = re.compile(
    r'(?P<spelling>\w+) +(?P<returns>[\w*]+) +(?P<name>[\w{},=:]+)\((?P<parameters>[^()]*)\)'
    r'(?P<attributes>( *@\w+\([^()]*\))*)'
)
ATTRIBUTE = re.compile(r'@(\w+)\(([^()]*)\)')
LETTER_SET = re.compile(r'\{([A-Za-z]+)\}')
FIELD = re.compile(r'(\w+)(\??)(?:=(\S+))?')
WORD_SET = re.compile(r'\{([^{}]+)\}')
PAIR = re.compile(r'\[(\w*)\|(\w*)\]')
TWIN = re.compile(r'_pt[sd][sz]$')  # the variant for the per-thread default stream
MAX_FAMILIES = 31  # bits of a mask of 32; one says that none is captured (preload/gpu/gpu_time.cc)
MAX_HOOKS = 4096  # preload/link/resolver.cc packs an id into 12 bits
RESERVED = ('frame', 'real', 'record', 'result')  # used by the wrappers themselves
DECLARATIONS = ('family', 'room', 'decoder', 'tracker')


def logical_lines(path):
    """(Place, text) of each non-empty line; a line that begins with a blank continues the previous one."""
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
        if not equals or (not value and key != 'fields'):
            raise place.error(f"found '{word}', expected key=value")
        pairs[key] = value
    return pairs


class TableReader:
    """Parses the tables into an Api: declarations of all files first, so that the order of files does not matter."""

    def __init__(self):
        self.api = Api()
        self.room = {}
        self.word_sets = {}

    def read(self, paths):
        files = [(path, logical_lines(path)) for path in paths]
        for _, lines in files:
            for place, text in lines:
                keyword, _, rest = text.partition(' ')
                if keyword in DECLARATIONS:
                    getattr(self, f'read_{keyword}')(place, rest.strip())
        for _, lines in files:
            self.read_library(lines)
        return self.api

    def read_family(self, place, text):
        name, _, default = text.partition(' ')
        if not re.fullmatch(r'[a-z]\w*', name) or name in self.api.families or default not in ('', 'off'):
            raise place.error(f"found family '{text}', expected one new lower-case name, and perhaps: off")
        self.api.families[name] = default != 'off'
        if len(self.api.families) > MAX_FAMILIES:
            raise place.error(f'found family number {MAX_FAMILIES + 1}, expected at most {MAX_FAMILIES}: they are bits of a mask')

    def read_room(self, place, text):
        self.room = dict(zip(('room', 'header'), text.split()))

    def read_declaration(self, place, text, what, declared):
        """(name, values) of 'NAME key=value…' with the keys that the dataclass `declared` has."""
        name, _, rest = text.partition(' ')
        values = {**self.room, **split_pairs(rest, ' ', place)}
        fields = dataclasses.fields(declared)
        required = {field.name for field in fields if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING}
        if not required <= set(values) <= {field.name for field in fields}:
            expected = sorted(required) + sorted(f'[{field.name}]' for field in fields if field.name not in required)
            raise place.error(f"{what} '{name}' has {' '.join(sorted(values))}, expected {' '.join(expected)}")
        values['fields'] = read_fields(values.get('fields', ''), place)
        if 'context' in values:
            values['context'] = tuple(values['context'].split(','))
            for word in values['context']:
                self.known('context', CONTEXT, word, place)
        return name, values

    def read_tracker(self, place, text):
        name, values = self.read_declaration(place, text, 'tracker', Tracker)
        self.api.trackers[name] = Tracker(**values)

    def read_decoder(self, place, text):
        name, values = self.read_declaration(place, text, 'decoder', Decoder)
        if 'constants' in values:
            constants = split_pairs(values['constants'].replace(':', '='), ',', place)
            values['constants'] = {key: tuple((value + '=').split('=')[:2]) for key, value in constants.items()}
        if 'begin' in values:
            self.known('begin', BEGIN, values['begin'], place)
        values['ignore'] = frozenset(values.get('ignore', '').split(','))
        self.api.decoders[name] = Decoder(**values)

    def read_library(self, lines):
        library = section = ''
        work = 'none'
        second = ()
        spellings = {}
        self.word_sets = {}  # of this file
        for place, text in lines:
            keyword, *words = text.split()
            if keyword in DECLARATIONS:
                continue
            if keyword == 'library' and len(words) == 1:
                library = words[0]
            elif keyword == 'soname' and len(words) > 1 and words[0] in BYTES:
                self.api.sonames[library, words[0]] = words[1:]
            elif keyword == 'spelling' and len(words) > 2:
                spellings[words[0]] = read_spelling(words[1:], place)
            elif keyword == 'section' and len(words) == 1:
                section = self.known('family', self.api.families, words[0], place)
                work = 'none'
            elif keyword == 'work' and len(words) == 1:
                work = self.known('work', WORK, words[0], place)
            elif keyword == 'newest' and len(words) == 1 and words[0].isdigit():
                self.api.newest_driver = int(words[0])
            elif keyword == 'second' and len(words) in (2, 3):
                second = (' '.join(words[:2]), *words[2:])
            elif keyword == 'words' and len(words) > 2:
                self.word_sets[words[0]] = words[1:]
            elif '(' in text:
                for line in both(text, second, place):
                    self.read_prototype(place, line, library, section, spellings, work)
            else:
                raise place.error(
                    f"found '{text}', expected library, soname i32|i64, spelling, section, work, newest VERSION, second, words, "
                    'family, decoder, tracker or a prototype'
                )

    @staticmethod
    def known(what, table, name, place):
        if name not in table:
            raise place.error(f"found {what} '{name}', expected one of: {', '.join(table) or 'none is declared'}")
        return name

    def read_prototype(self, place, text, library, section, spellings, work):
        match = PROTOTYPE.fullmatch(text)
        if not match:
            raise place.error(
                f"found '{text}', expected: SPELLING RETURN NAME(TYPE NAME, …) [@decode(…)] [@track(…)] "
                '[@family(…)] [@work(…)] [@since(…)] [@more(…)]'
            )
        if not library or not section:
            raise place.error('found a prototype, expected a library line and a section line before it')
        self.known('spelling', spellings, match['spelling'], place)
        self.known('return type', RETURN_TYPES, match['returns'], place)
        attributes = dict(ATTRIBUTE.findall(match['attributes']))
        for attribute in attributes:
            self.known('attribute', ('decode', 'track', 'family', 'work', 'since', 'more'), attribute, place)
        family = self.known('family', self.api.families, attributes.get('family', section), place)
        parameters = read_parameters(match['parameters'], place)
        more = read_more(attributes.get('more', '0'), parameters, place)
        kind = self.known('work', WORK, attributes.get('work', work), place)
        made = read_work(kind, parameters, place)
        for letter, types, name in self.expand_sets(match['name'], place):
            resolved = tuple((resolve_type(kind, letter, place), parameter) for kind, parameter in parameters)
            decoder, constants = self.read_decode(attributes.get('decode', ''), resolved, types, place)
            tracker = self.read_track(attributes.get('track', ''), resolved, place)
            for width, pattern, is_fortran in spellings[match['spelling']]:
                hook = Hook(
                    symbol=pattern.replace('{}', name),
                    width=width,
                    returns=match['returns'],
                    parameters=as_fortran(parameters) if is_fortran else resolved,
                    family=family,
                    decoder=decoder,
                    constants=constants,
                    tracker=tracker,
                    work=made,
                    more=more,
                    library=library,
                    place=place,
                )
                self.add(hook)
                self.read_since(attributes.get('since', ''), hook)

    def expand_sets(self, name, place):
        """(letter or '', data types, name) of each function: ('s', ('f32',), 'sgemm'), … of '{sd}gemm'; ('', (), 'getA'), … of
        'get{A,B}'."""
        words = next((match for match in WORD_SET.finditer(name) if ',' in match[1] or match[1] in self.word_sets), None)
        if words:
            expanded = []
            for word in self.word_sets.get(words[1]) or words[1].split(','):
                word, _, types = word.partition('=')
                for letter, others, one in self.expand_sets(name[: words.start()] + word + name[words.end() :], place):
                    expanded.append((letter, tuple(filter(None, types.split(':'))) or others, one))
            return expanded
        match = LETTER_SET.search(name)
        if not match:
            return [('', (), name)]
        for letter in match[1]:
            self.known('letter', LETTERS, letter, place)
        return [(letter, (LETTERS[letter].data_type,), name[: match.start()] + letter + name[match.end() :]) for letter in match[1]]

    def read_decode(self, text, parameters, types, place):
        if not text:
            return '', ()
        name, _, rest = text.partition(',')
        decoder = self.api.decoders[self.known('decoder', self.api.decoders, name.strip(), place)]
        given = split_pairs(rest, ' ', place)
        for key in given:
            self.known(f'constant of decoder {name}', decoder.constants, key, place)
        require_fields(f'decoder {name}', decoder.fields, parameters, place)
        for kind, parameter in parameters:
            if '*' in decoder.ignore and parameter not in decoder.fields:
                continue
            if parameter not in decoder.ignore:
                self.known(f'parameter that decoder {name} does not know,', decoder.fields, parameter, place)
                if not TYPES[kind].decode:
                    raise place.error(f"found '{kind} {parameter}', expected a type that decoder {name} can use")
        constants = []
        for key, (kind, default) in decoder.constants.items():
            value = given.get(key, default)
            if not value and kind == 'DataType' and types:
                value, *types = types if len(types) > 1 else types * 2
            constants.append((key, constant(key, kind, value, place)))
        return name, tuple(constants)

    def read_track(self, name, parameters, place):
        if not name:
            return ''
        tracker = self.api.trackers[self.known('tracker', self.api.trackers, name, place)]
        require_fields(f'tracker {name}', tracker.fields, parameters, place)
        for kind, parameter in parameters:
            if parameter in tracker.fields and not TYPES[kind].decode:
                raise place.error(f"found '{kind} {parameter}', expected a type that tracker {name} can use")
        return name

    def read_since(self, text, hook):
        """@since(OWN[ TWIN][, OTHER_NAME=VERSION…]): which cuGetProcAddress requests return the function."""
        if not text:
            return
        versions, *others = (part.strip() for part in text.split(','))
        per_thread = bool(TWIN.search(hook.symbol))
        own = re.sub(r'_v\d+$', '', TWIN.sub('', hook.symbol))
        if not re.fullmatch(r'\d{4,5}( \d{4,5})?', versions):
            raise hook.place.error(f"found @since({text}), expected CUDA versions as cuda.h writes them: 3020 or 3020 7000")
        first, _, twin = versions.partition(' ')
        answers = {own: int(twin if twin and per_thread else first)}
        for base, since in split_pairs(' '.join(others), ' ', hook.place).items():
            answers[base] = int(since)
        for base, since in answers.items():
            key = (base, per_thread, since)
            if key in self.api.variants:
                raise hook.place.error(f"found {base} since {since} again, first answered by {self.api.variants[key].symbol}")
            self.api.variants[key] = DriverVariant(base, per_thread, since, hook.symbol)

    def add(self, hook):
        if not re.fullmatch(r'[A-Za-z_]\w*', hook.symbol):
            raise hook.place.error(f"found the symbol '{hook.symbol}', expected a C identifier")
        if hook.symbol in self.api.hooks:
            raise hook.place.error(f"found '{hook.symbol}' again, first in {self.api.hooks[hook.symbol].place}")
        if (hook.library, hook.width) not in self.api.sonames:
            raise hook.place.error(f"found no 'soname {hook.width}' of library {hook.library} before this line")
        self.api.hooks[hook.symbol] = hook
        if len(self.api.hooks) > MAX_HOOKS:
            raise hook.place.error(
                f"found hook number {MAX_HOOKS + 1}, '{hook.symbol}', expected at most {MAX_HOOKS}: "
                'an id has 12 bits (preload/link/resolver.cc)'
            )


def read_spelling(words, place):
    """[(width, pattern, is as Fortran sees it)] of 'i32 cblas_{} fortran i32 {}_ i64 {}_64_'."""
    result, width, is_fortran = [], '', False
    for word in words:
        if word in BYTES:
            width = word
        elif word == 'fortran':
            is_fortran = True
        elif width and word.count('{}') == 1:
            result.append((width, word, is_fortran))
        else:
            raise place.error(f"found '{word}', expected i32 or i64 and then names with {{}} in them")
    return result


def read_fields(text, place):
    """{name: Field} of 'm,n,batch?=1'."""
    fields = {}
    for word in filter(None, text.split(',')):
        match = FIELD.fullmatch(word)
        if not match:
            raise place.error(f"found field '{word}', expected NAME[?][=DEFAULT]")
        fields[match[1]] = Field(not match[2], match[3] or '')
    return fields


def require_fields(what, fields, parameters, place):
    names = [parameter for _, parameter in parameters]
    for name, field in fields.items():
        if field.required and name not in names:
            raise place.error(f"found no parameter '{name}', which {what} expects")


def read_parameters(text, place):
    parameters = []
    for parameter in filter(None, (part.strip() for part in text.split(','))):
        words = parameter.split()
        if len(words) != 2 or not re.fullmatch(r'[a-z]\w*', words[1]):
            raise place.error(f"found parameter '{parameter}', expected TYPE NAME")
        if words[0] not in TYPES and words[0] not in ('scalar', 'real'):
            raise place.error(f"found type '{words[0]}', expected one of: {' '.join(TYPES)} scalar real")
        if words[1] in RESERVED:
            raise place.error(f"found parameter '{parameter}', expected none of: {' '.join(RESERVED)}")
        parameters.append((words[0], words[1]))
    names = [name for _, name in parameters]
    if len(set(names)) != len(names):
        raise place.error('found two parameters of one name')
    return parameters


def read_work(kind, parameters, place):
    """(enumerator of EventWork, parameter with the stream or '') of a line; () for no work."""
    parameter, enumerator = WORK[kind]
    kinds = {name: kind for kind, name in parameters}
    if kind == 'stream' and 'stream' not in kinds:
        return 'kDefaultStream', ''
    if parameter and kinds.get(parameter) != 'ptr':
        raise place.error(
            f"found '{kinds.get(parameter, 'no parameter')} {parameter}', expected 'ptr {parameter}' for work {kind}, or @work(none)"
        )
    return (enumerator, parameter) if enumerator else ()


def read_more(text, parameters, place):
    if not text.isdigit() or int(text) > len(parameters):
        raise place.error(f'found @more({text}), expected how many of the parameters only some versions have')
    return int(text)


def both(text, second, place):
    """The lines of one with [X|Y] in its name: that with X, and that with Y, which has one more parameter and constant."""
    pair = PAIR.search(text.split('(')[0])
    if not pair:
        return [text]
    if not second:
        raise place.error(f"found '{pair[0]}', expected a line that begins with: second TYPE NAME [CONSTANT=VALUE]")
    parameter, *constants = second
    one, other = (text[: pair.start()] + pair[i] + text[pair.end() :] for i in (1, 2))
    other = re.sub(r'^ptds\b', 'ptsz', other.replace(')', f', {parameter})', 1))
    for value in constants:
        other = re.sub(r'@decode\((\w+),?([^)]*)\)', rf'@decode(\1,\2 {value})', other)
    return [one, other]


def as_fortran(parameters):
    """Of a function that is written as C sees it: without the order, and all by address."""
    kinds = {'enum': 'char*', 'option': 'char*', 'int': 'int*', 'enum[]': 'char[]'}
    by_value = ('scalar', 'real', 'float', 'short', 'byte')
    return tuple(('ptr' if kind in by_value else kinds.get(kind, kind), name) for kind, name in parameters if name != 'order')


def resolve_type(kind, letter, place):
    if kind not in ('scalar', 'real'):
        return kind
    if not letter:
        raise place.error(f"found type '{kind}', which needs a name with {{sdcz}} in it")
    return getattr(LETTERS[letter], kind)


def constant(key, kind, value, place):
    """The C++ value of a decoder's constant: bf16 of type DataType is DataType::kBf16, a number is unchanged."""
    if not value:
        raise place.error(f"found no '{key}=', expected a {kind}")
    return value if kind in ('bool', 'int') else f'{kind}::k{value[0].upper()}{value[1:]}'
