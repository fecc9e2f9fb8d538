"""Every relative link and anchor of every page (*.md) is valid, docs/README.md names all pages, README.md stays short, and
scripts/docs.sh makes a site of all of it."""

import os
import re
import subprocess
import tempfile
import unittest
import urllib.parse

import table_case

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LINK = re.compile(r"\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^)\s]+)\)")  # the text may continue in the next line
README_LINES = 150
README_COLUMNS = 130


def pages():
    """Paths of all pages, relative to the repository, except built or installed files."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name != "build" and not name.startswith(".")]
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in files if name.endswith(".md")]
    return sorted(found)


def text_of(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return file.read()


def prose(text):
    """Without code: its brackets are not links and its # not headings."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)


def anchors(page):
    """As made by GitHub: lower case, punctuation dropped, blanks to dashes, -1 after the second one of a name."""
    found = {}
    names = set()
    for heading in re.findall(r"^#+ +(.*?) *#*$", prose(text_of(page)), re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = found[name] = found.get(name, -1) + 1
        names.add(f"{name}-{count}" if count else name)
    return names


def links(page):
    return LINK.findall(re.sub(r"`[^`\n]*`", "code", prose(text_of(page))))


def broken(page):
    """The invalid links of a page."""
    wrong = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = urllib.parse.unquote(link).partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        exists = not target.startswith("..") and os.path.exists(os.path.join(ROOT, target))
        if not exists or (anchor and not (target.endswith(".md") and anchor in anchors(target))):
            wrong.append(link)
    return wrong


class Pages(unittest.TestCase):
    def test_links_and_anchors(self):
        self.assertGreater(len(pages()), 30)
        self.assertEqual({page: broken(page) for page in pages() if broken(page)}, {})

    def test_index_names_every_page(self):
        named = {os.path.normpath(os.path.join("docs", link.partition("#")[0])) for link in links("docs/README.md")}
        missing = [page for page in pages() if page.startswith("docs/") and page not in named | {"docs/README.md"}]
        self.assertEqual(missing, [])

    def test_readme_is_short(self):
        lines = text_of("README.md").splitlines()
        self.assertLessEqual(len(lines), README_LINES)
        wide = [line for line in lines if len(line) > README_COLUMNS and not line.startswith("|")]
        self.assertEqual(wide, [])


SPHINX = os.path.join(os.environ.get("DLHOOK_LINT_VENV") or os.path.join(ROOT, "build/venv-lint"), "bin/sphinx-build")


@unittest.skipUnless(os.path.exists(SPHINX), "no Sphinx: scripts/setup.sh --docs")
class Site(unittest.TestCase):
    def test_site(self):
        with tempfile.TemporaryDirectory() as folder:
            made = subprocess.run([os.path.join(ROOT, "scripts/docs.sh"), folder], capture_output=True, text=True, timeout=240)
            self.assertEqual(made.returncode, 0, made.stderr)
            for page in pages():
                path = os.path.join(folder, page.removesuffix(".md") + ".html")
                self.assertEqual(os.path.exists(path), "third_party" not in page, page)
            with open(os.path.join(folder, "index.html"), encoding="utf-8") as file:
                navigation = set(re.findall(r'href="(?:\./)?(docs/[^"#]*)\.html"', file.read().partition("<article")[0]))
            self.assertLessEqual({page.removesuffix(".md") for page in pages() if page.startswith("docs/")} - {"docs/README"},
                                 navigation)
            with open(os.path.join(folder, "searchindex.js"), encoding="utf-8") as file:
                self.assertIn('"docs/faq"', file.read())
            with open(os.path.join(folder, "docs/python.html"), encoding="utf-8") as file:
                reference = file.read()
            for name in ("Run.layers", "Table.arrow", "open", "profile", "diff", "recording"):
                self.assertIn(f'id="dlhook.{name}"', reference)


if __name__ == "__main__":
    table_case.main()
