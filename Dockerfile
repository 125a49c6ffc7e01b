# The image of xmlgp: the command, the server, and workers of a Dask cluster. docs/containers.md describes it.
#
#   docker build --tag xmlgp .

ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS builder
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]

# `tables` (Excel workbooks and Parquet files) is left out: it adds 150 MB.
ARG EXTRAS=dask,report,serve,text
# They draw the dashboard of Dask, and take 60 MB. Give an empty list to keep them.
ARG LEAVE_OUT="bokeh contourpy pillow xyzservices"
# Layers of images have whole seconds only, and compiled code is used while the time of its source is the same.
ARG SOURCE_DATE_EPOCH=1767225600

# binutils of any version can strip a library.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends binutils \
    && rm -rf /var/lib/apt/lists/*

COPY setup.cfg setup.py README.md LICENSE datasets.yaml /source/
COPY xmlgp /source/xmlgp
COPY .container /opt/container
# What only tests, compilers, editors and debuggers read goes.
RUN python -m venv /opt/xmlgp \
    && /opt/xmlgp/bin/pip install --no-cache-dir --no-compile "/source[${EXTRAS}]" \
    && /opt/xmlgp/bin/pip uninstall --yes ${LEAVE_OUT} pip \
    && find /opt/xmlgp/lib -type d \( -name tests -o -name include -o -path '*/numba/cuda' \) -prune -exec rm -r {} + \
    && find /opt/xmlgp/lib -type f -regex '.*\.\(pyi\|pxd\|pyx\|h\|a\|lib\)' -delete \
    && find /opt/xmlgp/lib /usr/local/lib -type f -regex '.*/_\(simd\|test\|.*_tests?\).*\.so' -delete \
    && /opt/xmlgp/bin/python /opt/container/strip-libraries.py /opt/xmlgp/lib \
    && find /opt/xmlgp /usr/local/lib -name '*.py' -exec touch --date "@${SOURCE_DATE_EPOCH}" {} +

# What the commands use is compiled here: Python's modules, and Numba's machine code for the processor of this machine.
ENV PATH=/opt/xmlgp/bin:$PATH \
    NUMBA_CACHE_DIR=/opt/container/numba
# The root of the image is Python, the packages, and the libraries of the system that they load, without a shell.
RUN /opt/container/warm-up \
    && /opt/container/make-root /image

FROM scratch
LABEL org.opencontainers.image.title="xmlgp" \
      org.opencontainers.image.description="Scalable Bayesian models for extreme multi-label data" \
      org.opencontainers.image.url="https://github.com/xmlgp/xmlgp" \
      org.opencontainers.image.source="https://github.com/xmlgp/xmlgp" \
      org.opencontainers.image.documentation="https://xmlgp.readthedocs.io" \
      org.opencontainers.image.licenses="BSD-3-Clause"
COPY --from=builder /image /
# The root file system may be read-only: what is written is in /work (data and models), /cache (what is read again), and
# /tmp.
ENV PATH=/opt/xmlgp/bin:/usr/local/bin \
    LANG=C.UTF-8 \
    HOME=/tmp \
    XDG_CACHE_HOME=/tmp/cache \
    MPLCONFIGDIR=/tmp/cache/matplotlib \
    NUMBA_CACHE_DIR=/tmp/cache/numba \
    XMLGP_CACHE_DIR=/cache \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /work
EXPOSE 8080 8786 8787
STOPSIGNAL SIGTERM
# It asks the server where the container runs `xmlgp serve`; other commands are healthy while they run.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["python", "/opt/container/health.py"]
ENTRYPOINT ["python", "/opt/container/start.py"]
CMD ["--help"]
