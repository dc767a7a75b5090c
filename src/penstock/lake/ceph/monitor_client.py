"""Commands for a Ceph's monitor over one connection, a line of JSON in and a line out.

Not imported: run by the system's Python, the only one the distribution's `rados` module is made for. Each input line is
a list of commands, which are sent at once; the output line has `[code, output, message]` for each of them.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

import rados  # type: ignore[import-not-found]  # the distribution's, not PyPI's


def main(configuration: str, seconds: str) -> None:
    """Standard input's end is the end. `seconds`: how long to wait for a monitor that does not answer."""
    patience = {"client_mount_timeout": seconds, "rados_mon_op_timeout": seconds}
    with (
        rados.Rados(conffile=configuration, name="client.admin", conf=patience) as cluster,
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
