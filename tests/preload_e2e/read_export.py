"""Reads an export with its format's own tools, and prints what they found as JSON. Run by test_export_readers.py with the Python of
build/venv-exports.

    read_export.py perfetto FILE SCHEMA    Perfetto's published schema; SCHEMA: dlhook's extract of it
    read_export.py trace_processor FILE    Perfetto's own reader, for which it needs Chromium
    read_export.py parquet FOLDER          DuckDB and pyarrow
"""

import collections
import json
import os
import re
import sys


def unknown_fields(message):
    from google.protobuf import unknown_fields as reader

    count = len(reader.UnknownFieldSet(message))
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            count += sum(map(unknown_fields, value if field.is_repeated else [value]))
    return count


def schema_differences(published, path):
    """Fields of the extract whose number or type the published schema does not have."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"//[^\n]*", "", file.read())
    found = []
    for name, body in re.findall(r"message (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}", text):
        known = getattr(published, name).DESCRIPTOR.fields_by_name
        for kind, field, number in re.findall(r"(?:optional|repeated) (\w+) (\w+) = (\d+);", body):
            official = known.get(field)
            types = {official.message_type.name if official.message_type else None,
                     official.enum_type.name if official.enum_type else None,
                     {getattr(official, f"TYPE_{kind.upper()}", None): kind}.get(official.type)} if official else set()
            if official is None or official.number != int(number) or kind not in types:
                found.append(f"{name}.{field}")
    return found


def perfetto(path, schema):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as published

    trace = published.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    categories, open_slices, counts = {}, collections.defaultdict(list), collections.defaultdict(lambda: [0, 0])
    for packet in trace.packet:
        for category in packet.interned_data.event_categories:
            categories[category.iid] = category.name
        event = packet.track_event
        if event.type == published.TrackEvent.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid].append((categories[event.category_iids[0]], packet.timestamp))
        elif event.type == published.TrackEvent.TYPE_SLICE_END:
            category, start_ns = open_slices[event.track_uuid].pop()
            counts[category][0] += 1
            counts[category][1] += packet.timestamp - start_ns
    return {"unknown_fields": unknown_fields(trace), "differences": schema_differences(published, schema),
            "open": sum(map(len, open_slices.values())), "slices": counts}


def trace_processor(path):
    import trace_processor as reader

    with reader.opened(path) as trace:
        slices = trace.query("SELECT category, count(*) AS count, sum(dur) AS sum FROM slice GROUP BY 1")
        errors = trace.query("SELECT name FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0")
        return {"slices": {row.category: [row.count, row.sum] for row in slices}, "errors": [row.name for row in errors]}


def parquet(folder):
    import duckdb
    import pyarrow.compute
    import pyarrow.parquet

    found = {}
    for entry in sorted(os.listdir(folder)):
        path = os.path.join(folder, entry)
        files = f"{path}/**/*.parquet" if os.path.isdir(path) else path
        ((rows,),) = duckdb.sql(f"SELECT count(*) FROM read_parquet('{files}')").fetchall()
        table = pyarrow.parquet.read_table(path)
        assert table.schema.metadata[b"schema_version"] == b"1"
        sums = {}
        for field in table.schema:
            if str(field.type) == "int64":
                ((by_duckdb,),) = duckdb.sql(f"SELECT sum(\"{field.name}\") FROM read_parquet('{files}')").fetchall()
                by_pyarrow = pyarrow.compute.sum(table[field.name]).as_py()
                assert by_duckdb == by_pyarrow, (entry, field.name)
                sums[field.name] = by_duckdb and int(by_duckdb)
            if str(field.type) == "string":
                sums[field.name] = pyarrow.compute.sum(pyarrow.compute.utf8_length(table[field.name])).as_py()
        assert rows == table.num_rows, entry
        units = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in table.schema}
        found[entry.removesuffix(".parquet")] = {"rows": rows, "sums": sums, "units": units}
    return found


if __name__ == "__main__":
    readers = {"perfetto": perfetto, "trace_processor": trace_processor, "parquet": parquet}
    json.dump(readers[sys.argv[1]](*sys.argv[2:]), sys.stdout)
