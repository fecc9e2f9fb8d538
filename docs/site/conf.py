"""The documentation as a site (scripts/docs.sh): every page of the repository, as it is, and the Python package's reference.

The pages are the ones that are read in the repository. Navigation is what docs/README.md lists, in its order, so that a page is
named in one place.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

project = "dlhook"
html_title = "dlhook"
html_theme = "furo"
html_show_copyright = False
html_copy_source = html_show_sourcelink = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.githubpages"]  # the last: else a host leaves out _static
root_doc = "README"
source_suffix = {".md": "markdown"}
exclude_patterns = ["build", "**/node_modules", "**/third_party", ".*"]
myst_heading_anchors = 6  # of every heading, named as GitHub names them
autodoc_typehints = "description"
highlight_language = "none"  # most code is commands and what they print
smartquotes = False  # two dashes are an option
suppress_warnings = ["toc.not_included"]  # folders' pages are reached by links

SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+\.md)\)")


def navigation():
    """One list of pages for each section of docs/README.md."""
    with open(os.path.join(ROOT, "docs/README.md"), encoding="utf-8") as file:
        _, *sections = SECTION.split(file.read())
    for title, text in zip(sections[::2], sections[1::2]):
        pages = dict.fromkeys(os.path.normpath(os.path.join("docs", link)) for link in LINK.findall(text))
        yield f"```{{toctree}}\n:hidden:\n:caption: {title}\n:maxdepth: 1\n\n" + "".join(f"/{page}\n" for page in pages) + "```\n"


def add_to_page(app, page, source):
    if page == root_doc:
        source[0] += "\n\n" + "\n".join(navigation())
    if page == "docs/python":
        source[0] += "\n\n## Reference\n\n```{eval-rst}\n.. automodule:: dlhook\n   :members:\n   :imported-members:\n```\n"


def has_no_words(app, what, name, member, skip, options):
    """A field of a named tuple: its class explains it."""
    return True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None


def setup(app):
    app.connect("source-read", add_to_page)
    app.connect("autodoc-skip-member", has_no_words)
