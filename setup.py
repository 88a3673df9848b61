"""The one part that is compiled: kernels for decoding (regard/kernels). Where there is no compiler regard is installed
without it and does the same with torch; all else is said in pyproject.toml."""

import sys

from setuptools import Extension, setup

QUICK = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
THREADS = ["-fopenmp"] if sys.platform == "linux" else ["-fopenmp-simd"]

setup(
    ext_modules=[
        Extension(
            "regard.kernels.kernels",
            ["regard/kernels/kernels.c", "regard/kernels/product.c", "regard/kernels/product8.c"],
            depends=["regard/kernels/product.h"],
            extra_compile_args=["/O2"] if sys.platform == "win32" else QUICK + THREADS,
            extra_link_args=THREADS if sys.platform == "linux" else [],
            optional=True,
        )
    ]
)
