"""The service: `app` (the ASGI application) and `server` (its process), `context`, `guards`, `auth`, `problems` and
`access_log` around every request, `streaming`, `requests` and `responses`, `spark_ui` and `spark_pages` (Spark's own
pages, on an origin of their own). Routes are in `api` and `ibm`, the console's files in `console`.
"""
