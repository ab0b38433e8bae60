"""Configuration of the documentation: ``python -m sphinx -W docs docs/_build/html``."""

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
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
}
html_static_path = ["_static"] if (Path(__file__).parent / "_static").is_dir() else []

# External links, for ``python -m sphinx -b linkcheck``: publishers that refuse programs.
linkcheck_ignore = [r"https://doi\.org/.*"]
