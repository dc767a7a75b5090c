"""Reports of runs.

`report` chooses the document; `elements` has what documents are made of, and `plots` their figures. The other chapters
are one kind of page each.
"""
