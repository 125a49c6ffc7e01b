"""Runs `python -m benchmarks.papers NAMES`, which makes tables and figures of the papers."""

from xmlgp.runtime.threads import prefer_avx512

if __name__ == "__main__":
    prefer_avx512()
    # After the choice of kernels, since this imports NumPy.
    from benchmarks.papers.command import reproduce

    reproduce(prog_name="python -m benchmarks.papers")
