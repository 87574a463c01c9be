from glob import glob

from setuptools import Extension, setup

setup(ext_modules=[
    Extension("fuselab.toolkit.capture._frame", ["toolkit/capture/_frame.c"], depends=glob("toolkit/capture/*.h"), extra_compile_args=["-O3"]),
    Extension("fuselab.toolkit.runtime._launch", ["toolkit/runtime/_launch.c"], extra_compile_args=["-O2"]),
])
