"""A BI tool's use of a session through Hive's JDBC driver: `jdbc_client.py ADDRESS [REFUSED …]`.

Prints JSON, with the error from each address that refuses it.
"""

import json
import sys
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.java_gateway import launch_gateway

gateway = launch_gateway()
driver = gateway.jvm.org.apache.hive.jdbc.HiveDriver()


def connect(address: str) -> Any:
    return driver.connect(address, gateway.jvm.java.util.Properties())


def rows(connection: Any, statement: str) -> list[list[str]]:
    """The rows of the answer; none of a statement without one."""
    running = connection.createStatement()
    found = []
    if running.execute(statement):
        result = running.getResultSet()
        columns = result.getMetaData().getColumnCount()
        while result.next():
            found.append([result.getString(column) for column in range(1, columns + 1)])
    running.close()
    return found


def refusal(address: str) -> str:
    try:
        connect(address)
    except Py4JJavaError as error:
        return str(error.java_exception.getMessage())
    return "not refused"


ada, bob = connect(sys.argv[1]), connect(sys.argv[1])
rows(ada, "create table from_jdbc as select id, id % 2 as part from range(1000)")
rows(ada, "create temporary view adas as select 1 as one")
report = {
    "sum": rows(bob, "select part, sum(id) from from_jdbc group by part order by part"),
    "views": [rows(client, "show views") for client in (ada, bob)],
    "refusals": [refusal(address) for address in sys.argv[2:]],
}
tables = ada.getMetaData().getTables(None, "default", "from_jdbc", None)
report["listed"] = tables.next() and tables.getString("TABLE_NAME")
rows(bob, "drop table from_jdbc")
print(json.dumps(report))
