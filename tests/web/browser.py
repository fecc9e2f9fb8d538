"""Headless Chromium, driven over a pair of pipes by its DevTools protocol: no network, no driver program."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DEADLINE_S = 120  # for one answer: a machine that is busy with other things


class Browser:
    """One page; `errors` are exceptions, console.error and everything that the content security policy refused."""

    def __init__(self):
        if CHROMIUM is None:
            raise RuntimeError("no Chromium: run scripts/setup.sh --test")
        self.profile = tempfile.mkdtemp(prefix="dlhook_web_")
        to_browser, ours_out = os.pipe()
        ours_in, from_browser = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars",
                 "--disable-background-networking", "--no-first-run", "--remote-debugging-pipe", f"--user-data-dir={self.profile}"]
        # Chromium reads from 3 and writes to 4.
        script = f'exec 3<&{to_browser} 4>&{from_browser} && exec "$0" "$@"'
        self.process = subprocess.Popen(["bash", "-c", script, CHROMIUM, *flags], pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.out, self.incoming = ours_out, ours_in
        self.buffer, self.number, self.session, self.errors = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page"):
            self.call(domain + ".enable")

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.out)
        os.close(self.incoming)
        shutil.rmtree(self.profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _read(self, deadline):
        while b"\0" not in self.buffer:
            if not select.select([self.incoming], [], [], max(0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            piece = os.read(self.incoming, 1 << 20)
            if not piece:
                raise EOFError("Chromium ended")
            self.buffer += piece
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def _note(self, message):
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.errors.append(str([argument.get("value") for argument in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + DEADLINE_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._note(answer)

    def evaluate(self, expression):
        """The value of a JavaScript expression; of a promise what it becomes."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description", result["exceptionDetails"]["text"]))
        return result["result"].get("value")

    def wait_for(self, expression):
        deadline = time.monotonic() + DEADLINE_S
        while not self.evaluate(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"never true: {expression}; {self.errors}")
            time.sleep(0.02)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, is_dark):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}])

    def key(self, name):
        """Pressed and released, as the keyboard does it."""
        code = {"Tab": 9, "Enter": 13, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[name]
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def open(self, path):
        """A page of dlhook, until it is usable."""
        self.errors.clear()
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for("location.protocol === 'file:' && document.readyState === 'complete' && (document.getElementById('page')"
                      ".dataset.ready === 'true' || document.querySelector('.fatal:not(#loading)') !== null)")

    def go(self, address):
        """To a view of the page; returns once it is drawn."""
        self.evaluate(f"location.hash = {json.dumps(address)};"
                      "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def screenshot(self, path, full=False):
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)
        with open(path, "wb") as file:
            file.write(base64.b64decode(picture["data"]))
