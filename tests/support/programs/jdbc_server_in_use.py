"""Check, from its own JVM, when a JDBC server counts as used. Ends with code 0 where all is as it should be."""

import threading
import time

from py4j.protocol import Py4JJavaError

from penstock.engine.interactive.session_server import JdbcServer

server = JdbcServer("kept", idle_seconds=60)
java = server._java
started = time.time()
assert not server.busy()
assert server.last_request() is None

address = f"jdbc:hive2://localhost:{server.port}/;user=ada;password=kept"
connection = java.org.apache.hive.jdbc.HiveDriver().connect(address, java.java.util.Properties())
opened = server.last_request()
# Hive counts in whole milliseconds.
assert opened is not None and opened >= started - 0.001
assert not server.busy()


statement = connection.createStatement()
errors = []


def sleep() -> None:
    try:
        statement.execute("select reflect('java.lang.Thread', 'sleep', 3600000L)")
    except Py4JJavaError as error:
        errors.append(error)


sleeper = threading.Thread(target=sleep, daemon=True)
sleeper.start()
while not server.serves():
    time.sleep(0.05)
# By the driver: the client's own way to cancel does nothing until it has the statement's handle.
while server.serves():
    java.org.apache.spark.SparkContext.getOrCreate().cancelAllJobs()
    time.sleep(0.05)
sleeper.join()
assert errors

# Its rows wait to be fetched, for as long as a client likes: that is no use.
other = connection.createStatement()
result = other.executeQuery("select id from range(10)")
assert not server.serves()
before = server.last_request()
assert before is not None and before >= opened
time.sleep(0.01)
assert result.next()
other.close()

connection.close()
while server.last_request() is not None:
    time.sleep(0.05)
server.stop()
