"""What a command takes, measured by a small process.

    python -m benchmarks measured_command COMMAND [ARGUMENT ...]

Runs the command without its standard output, and prints JSON: seconds, processor seconds and its largest resident set
in megabytes. The system counts the memory of the process that starts a command as the command's, so this file imports
the standard library alone. Ends with the status of a command that fails.
"""

import json
import os
import subprocess
import sys
import time


def main():
    start = time.perf_counter()
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(process.returncode)
    # Linux reports kilobytes, macOS bytes.
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    print(json.dumps({"seconds": seconds, "processor_seconds": usage.ru_utime + usage.ru_stime, "peak_mb": peak}))


if __name__ == "__main__":
    main()
