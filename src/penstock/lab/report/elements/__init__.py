"""The elements of reports.

`render` has documents, and writes them as HTML or Markdown. `checks` has the sections of every document, `reproduction`
the sentences of them; `reads` and `resources` have sections of several kinds.
"""
