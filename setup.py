"""The one part that is compiled: kernels for decoding (regard/native). Where there is no compiler regard is installed
without it and does the same with torch; all else is said in pyproject.toml."""

import sys

from setuptools import Extension, setup

QUICK = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
THREADS = ["-fopenmp"] if sys.platform == "linux" else ["-fopenmp-simd"]

setup(
    ext_modules=[
        Extension(
            "regard.native.kernels",
            ["regard/native/kernels.c", "regard/native/product.c", "regard/native/product8.c"],
            depends=["regard/native/product.h"],
            extra_compile_args=["/O2"] if sys.platform == "win32" else QUICK + THREADS,
            extra_link_args=THREADS if sys.platform == "linux" else [],
            optional=True,
        )
    ]
)
