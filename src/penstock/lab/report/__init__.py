"""Reports of runs.

`report` chooses the document, `checks` has the sections of every document, `render` writes it as HTML or Markdown. The
other chapters are one kind of page each, and `plots` has their figures.
"""
