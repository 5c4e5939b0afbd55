"""The website (``make docs``): front page, guides, stored notebooks, and a reference that is read, not imported."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "docs" / "site"
sys.path.insert(0, str(HERE))  # our extensions
contents = importlib.import_module("contents")
about = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

project = about["project"]["name"]
extensions = ["myst_nb", "sphinx_design", "sphinx_copybutton", "sphinx_codeautolink", "sphinx.ext.mathjax",
              "sphinx.ext.viewcode", "autoapi.extension", "contents", "docstrings", "files", "public", "slides",
              "snippets"]
templates_path = [str(HERE / "templates" / "html")]
exclude_patterns = ["docs/site/templates", "notebooks/instructor", "**/.ipynb_checkpoints"]
suppress_warnings = ["autoapi.python_import_resolution",  # a constant handed on: it is not shown
                     "config.cache"]  # codeautolink keeps a function there; all is read again every time, anyway
highlight_language = "text"

# Markdown and notebooks: what is stored is shown, nothing is executed
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_dmath_allow_space = myst_dmath_allow_digits = False  # "5 $ or 6 $" is no formula
myst_heading_anchors = 4
nb_execution_mode = "off"
nb_render_markdown_format = "myst"  # a cell that shows a source links to it
copybutton_prompt_text = "$ "
codeautolink_concat_default = True  # a cell goes on where the last one ended
codeautolink_custom_blocks = {"python": "contents.without_magics"}

# Formulas: MathJax from a wheel, so that a folder without a network shows them; as SVG it needs no fonts
mathjax = Path(importlib.util.find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax" / "tex-svg.js"
mathjax_path = mathjax.name

# The reference: read from the source, so that it needs no GPU and no PyTorch, and no module is named here
packages = about["tool"]["setuptools"]["packages"]["find"]["include"]
autoapi_dirs = [str(ROOT / name.rstrip("*")) for name in packages]
autoapi_root = "reference"
autoapi_template_dir = str(HERE / "templates")
autoapi_options = ["members"]
autoapi_python_use_implicit_namespaces = True
toc_object_entries_show_parents = "hide"
add_module_names = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

html_theme = "pydata_sphinx_theme"
html_title = project
html_favicon = html_logo = str(HERE / "icon.svg")
html_static_path = [str(HERE / "style.css"), str(HERE / "search.js"), str(HERE / "tree.svg"), str(mathjax)]
html_css_files, html_js_files = ["style.css"], ["search.js"]
html_show_sourcelink = html_show_sphinx = html_copy_source = False
html_show_search_summary = False  # it would be fetched, which browsers refuse to pages of a folder: see snippets
html_search_scorer = str(HERE / "scorer.js")
html_sidebars = {"**": ["sidebar-nav-bs"], "index": []}
repository = contents.published()  # "": then no button leads to Binder
if not re.fullmatch(r"([\w.-]+/[\w.-]+)?", repository):
    sys.exit(f"REPOSITORY={repository}: docs/conf.py expects owner/name, as in https://github.com/owner/name")
html_context = {"default_mode": "auto",  # light or dark as the reader's system is
                "repository": repository}
html_theme_options = {
    "logo": {"text": project, "alt_text": "front page"},
    "navbar_align": "left",
    "article_header_end": ["lesson"],
    "navbar_persistent": ["search-button-field"],
    "collapse_navigation": True,
    "navigation_depth": 4,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "search_as_you_type": True,
    "search_bar_text": "Search",
    "footer_start": [],
    "footer_end": [],
}
