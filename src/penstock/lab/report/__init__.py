"""Reports of runs: `report` chooses the document, `checks` stand in each, `render` writes it; a chapter for each kind
of page.
"""
