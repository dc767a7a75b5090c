"""The engines that run applications, behind one contract.

`contract` says what an engine is, and `registry` names all. Those that are not Spark run as programs of their own, each
in a package with its driver; `statement_driver` is what their drivers have in common.
"""
