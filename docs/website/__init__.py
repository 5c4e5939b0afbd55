"""The project's website: README, notebooks, guides, findings, and a reference made from the docstrings.

    build.py       read everything, ask the rooms below for pages, write them
    pages.py       Page, and the frame around all pages
    prose.py       Markdown -> HTML            notebook.py    .ipynb -> HTML
    reference.py   a page for every module     docstring.py   docstring -> HTML
    modules.py     what a Python file defines, by reading it: nothing of it is imported or run
    links.py       from a file of the repository to its page
    code.py        highlighting                formula.py     LaTeX -> MathML
    check.py       what a finished site must not have

``python -m docs.website`` writes static files that need no server and load nothing from another host.
"""
