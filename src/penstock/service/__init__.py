"""The service: its HTTP API and the web console.

`app` is the ASGI application and `server` its process; `context`, `guards`, `auth`, `problems` and `access_log` are
around every request. `streaming` has the event feed and log following, `requests` and `responses` the bodies.
`iceberg` is a catalog for other engines; `spark_ui` serves Spark's own pages, on an origin of their own. Routes are in
`api` and `ibm`, the console's files in `console`.
"""
