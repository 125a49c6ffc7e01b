"""Say by the exit status whether a container is healthy: `xmlgp serve` must answer, other commands need only run."""

import http.client
import ipaddress
import sys
from pathlib import Path

#: Seconds for an answer.
PATIENCE = 8


def option(arguments: list[str], name: str, default: str) -> str:
    """Return the value of an option, given as `--name VALUE` or `--name=VALUE`; the last one counts."""
    value = default
    for place, argument in enumerate(arguments):
        if argument == name and place + 1 < len(arguments):
            value = arguments[place + 1]
        elif argument.startswith(f"{name}="):
            value = argument.removeprefix(f"{name}=")
    return value


def address(command: list[str]) -> tuple[str, int] | None:
    """Return where the server of a command listens, or None if the command is another one."""
    if "serve" not in command:
        return None
    arguments = command[command.index("serve") + 1 :]
    host = option(arguments, "--host", "127.0.0.1")
    try:
        if ipaddress.ip_address(host).is_unspecified:
            host = "127.0.0.1"
    except ValueError:  # a name
        pass
    return host, int(option(arguments, "--port", "8080"))


def main() -> int:
    """Return 0 if the container is healthy."""
    # The first process may be an init that starts the command, whose arguments it has.
    server = address(Path("/proc/1/cmdline").read_text().split("\0"))
    if server is None:
        return 0
    connection = http.client.HTTPConnection(*server, timeout=PATIENCE)
    connection.request("GET", "/healthz", headers={"Host": f"localhost:{server[1]}"})
    return 0 if connection.getresponse().status == 200 else 1


if __name__ == "__main__":
    sys.exit(main())
