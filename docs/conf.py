"""Configuration of the documentation: ``python -m sphinx -W docs docs/_build/html``."""

from importlib.util import find_spec
from pathlib import Path

import pacbayes

project = "pacbayes"
author = "The pacbayes developers"
copyright = "2026, the pacbayes developers"
version = release = pacbayes.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "gallery/**/README.txt"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

templates_path = ["_templates"]
autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False

# Every example runs when the documentation is built, and a failure fails the build.
sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    # As the file names say: the certificate is what the library is about.
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": "/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1000,
}

html_theme = "pydata_sphinx_theme"
html_title = "pacbayes"
html_theme_options = {
    "show_prev_next": False,
    "header_links_before_dropdown": 7,
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "navigation_with_keys": False,
}
# Pages that are a section of their own have no other pages to list beside them.
html_sidebars = {page: [] for page in ("index", "start", "cli")}

# Formulas without a network: MathJax comes from a package and is part of the pages.
mathjax = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"
mathjax_path = mathjax.name
html_static_path = ["_static", str(mathjax)]

# External links, for ``python -m sphinx -b linkcheck``: publishers that refuse programs.
linkcheck_ignore = [r"https://doi\.org/.*"]
