"""Commands for a Ceph monitor over one connection, with a line of JSON in and a line of JSON out.

This script is not imported but run by the system's Python, the only one for which the distribution's `rados` module is
built. Each input line is a list of commands, which are sent at once; the output line has `[code, output, message]` for
each of them.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import rados  # type: ignore[import-not-found]  # the distribution's, not PyPI's


def main(configuration: str, seconds: str) -> None:
    """Answer commands until standard input ends; `seconds` is the timeout for a monitor that does not answer."""
    timeouts = {"client_mount_timeout": seconds, "rados_mon_op_timeout": seconds}
    with (
        rados.Rados(conffile=configuration, name="client.admin", conf=timeouts) as cluster,
        ThreadPoolExecutor() as pool,
    ):

        def ask(command):  # type: ignore[no-untyped-def]
            code, output, message = cluster.mon_command(json.dumps(command), b"")
            return [code, output.decode(), message]

        print(flush=True)
        for line in sys.stdin:
            print(json.dumps(list(pool.map(ask, json.loads(line)))), flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except rados.Error as error:
        sys.exit(str(error))
