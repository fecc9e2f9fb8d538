"""A table of the command's json output, and what other libraries make of it: pandas, Arrow, and through Arrow's interface polars,
DuckDB and others. Both libraries are imported only when they are asked for."""

from __future__ import annotations

import html
import re
from typing import Any, Iterator, NamedTuple, Optional


class Column(NamedTuple):
    """A column: `unit` "ns", "bytes", "%" …, empty: a count or a text; `type` "text", "integer" or "real"; `better` "lower", "higher" or
    "neither"; `explanation`: a sentence."""

    name: str
    unit: str
    type: str
    better: str
    explanation: str


def _import(name: str, wanted: str) -> Any:
    try:
        return __import__(name)
    except ImportError as error:
        raise ImportError(f"{wanted} needs {name}, which is not installed here: pip install {name} (without it: "
                          "run.read(NAME).rows and .columns)") from error


class Table:
    """A table: `name`, `title`, `columns` (Column), `rows` (tuples of str, int, float or None where it is not known) and `notes`."""

    def __init__(self, json: dict[str, Any]) -> None:
        self.name: str = json["name"]
        self.title: str = json["title"]
        self.columns = [Column(*(column[field] for field in Column._fields)) for column in json["columns"]]
        self.rows: list[tuple[Any, ...]] = [tuple(row) for row in json["rows"]]
        self.notes: list[str] = json["notes"]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows as dictionaries."""
        names = [column.name for column in self.columns]
        return (dict(zip(names, row)) for row in self.rows)

    def __repr__(self) -> str:
        return f"<dlhook table {self.name}: {len(self.rows)} rows of {', '.join(column.name for column in self.columns)}>"

    def column(self, name: str) -> list[Any]:
        """The cells of a column."""
        index = [column.name for column in self.columns].index(name)
        return [row[index] for row in self.rows]

    @property
    def units(self) -> dict[str, str]:
        """The units of the columns that have one: {"time": "ns"}."""
        return {column.name: column.unit for column in self.columns if column.unit}

    def pandas(self) -> Any:
        """A DataFrame. What is not known is NA in texts and integers, NaN in reals. `attrs` has the table's name, title and notes, and by
        column its unit, explanation and which direction is better."""
        pandas = _import("pandas", "a DataFrame")
        dtypes = {"text": "string", "integer": "Int64", "real": "float64"}
        cells = list(zip(*self.rows)) if self.rows else [()] * len(self.columns)
        frame = pandas.DataFrame({column.name: pandas.Series(list(values), dtype=dtypes[column.type])
                                  for column, values in zip(self.columns, cells)})
        frame.attrs = {"name": self.name, "title": self.title, "notes": self.notes, "units": self.units,
                       "explanations": {column.name: column.explanation for column in self.columns},
                       "better": {column.name: column.better for column in self.columns}}
        return frame

    def arrow(self) -> Any:
        """A pyarrow Table. The metadata of a field are its unit and its explanation."""
        pyarrow = _import("pyarrow", "an Arrow table")
        types = {"text": pyarrow.string(), "integer": pyarrow.int64(), "real": pyarrow.float64()}
        fields = [pyarrow.field(column.name, types[column.type], metadata={"unit": column.unit, "explanation": column.explanation})
                  for column in self.columns]
        cells = list(zip(*self.rows)) if self.rows else [()] * len(fields)
        return pyarrow.Table.from_arrays([pyarrow.array(values, field.type) for values, field in zip(cells, fields)],
                                         schema=pyarrow.schema(fields, metadata={"name": self.name, "title": self.title}))

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """Arrow's interface between libraries: polars.DataFrame(table), duckdb.sql("select … from table") take it."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def text(self, limit: int) -> str:
        """For a terminal: at most `limit` rows, times in their units, without columns that are not known in any."""
        lines = [self.name + ": " + self.title, *[""] * (1 + len(self.rows[:limit]))]
        for column, cells in zip(self.columns, zip(*self.rows[:limit])):
            if any(cell is not None for cell in cells):
                texts = [column.name, *(_cell(cell, column.unit) for cell in cells)]
                width = max(map(len, texts))
                padded = [text.ljust(width) if column.type == "text" else text.rjust(width) for text in texts]
                lines[1:] = [f"{line}{text}  " for line, text in zip(lines[1:], padded)]
        more = [f"and {len(self.rows) - limit} more rows"] if len(self.rows) > limit else []
        return "\n".join([*map(str.rstrip, lines), *more, *self.notes])

    def _repr_html_(self) -> str:
        """For notebooks."""
        heads = "".join(f'<th title="{html.escape(column.explanation)}">{html.escape(column.name)}'
                        f"{f' ({html.escape(column.unit)})' if column.unit else ''}</th>" for column in self.columns)
        rows = "".join("<tr>" + "".join(f"<td>{'' if cell is None else html.escape(_short(cell))}</td>" for cell in row) + "</tr>"
                       for row in self.rows)
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<p><b>{html.escape(self.title)}</b></p><table><tr>{heads}</tr>{rows}</table>{notes}"


def human(ns: float) -> str:
    """12345678 as "12.3 ms"."""
    unit, size = next((pair for pair in (("s", 1e9), ("ms", 1e6), ("us", 1e3)) if abs(ns) >= pair[1]), ("ns", 1))
    return f"{ns / size:.0f} {unit}" if abs(ns) >= 1000 * size else f"{ns / size:.3g} {unit}"


def _cell(cell: object, unit: str) -> str:
    if cell is None:
        return ""
    return human(cell) if unit == "ns" and isinstance(cell, (int, float)) else _short(cell)


def _short(cell: object) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) else printable(str(cell))


def printable(text: str) -> str:
    """Without characters that a terminal would obey: they are names in a trace."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", lambda match: f"\\x{ord(match[0]):02x}", text)
