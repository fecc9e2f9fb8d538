#!/usr/bin/env python3
"""Bundles the page without data into one HTML file.

    build.py ESBUILD NODE_MODULES OUT

index.html has places for the script, the style, the licences and a content security policy that allows exactly these.
"""
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def bundled(esbuild, modules, entry):
    """The file `entry` with all that it imports, minified."""
    command = [esbuild, str(HERE / entry), "--bundle", "--minify", "--target=es2020", "--format=iife", "--charset=utf8",
               "--legal-comments=none", "--log-level=warning"]
    result = subprocess.run(command, env={**os.environ, "NODE_PATH": modules}, stdout=subprocess.PIPE, check=True)
    return result.stdout.decode().strip()


def allowed(text):
    """As a content security policy names an inline script or style."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def classes_of_marks():
    """.library{--own:var(--library)} and so on, for the colours that style/colors.css lists for marks."""
    marks = (HERE / "style/colors.css").read_text().split("/* Of marks")[1].split("}")[0]
    return "".join(f".{name}{{--own:var(--{name})}}" for name in re.findall(r"--(\w+):", marks))


def main():
    esbuild, modules, out = sys.argv[1:]
    script = bundled(esbuild, modules, "src/main.js")
    style = bundled(esbuild, modules, "style/page.css") + classes_of_marks()
    for text, end in ((script, "</script"), (style, "</style")):
        if end in text.lower():
            sys.exit(f"build.py: {end} inside of what it would end")
    # Images are of the view itself, to be saved.
    policy = (f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; img-src data:; base-uri 'none'; "
              "form-action 'none'")
    page = (HERE / "index.html").read_text()
    parts = {"@DLHOOK_POLICY@": policy, "@DLHOOK_STYLE@": style, "@DLHOOK_SCRIPT@": script,
             "@DLHOOK_LICENCES@": (HERE / "licences.txt").read_text()}
    for place, text in parts.items():
        if page.count(place) != 1:
            sys.exit(f"build.py: index.html has {place} {page.count(place)} times")
        page = page.replace(place, text)
    pathlib.Path(out).write_text(page)


if __name__ == "__main__":
    main()
