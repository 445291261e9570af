"""Import root: `interlock.daemon`, `interlock.protocol`, … are the folders beside this one.

The five links make every tool see real packages; `[tool.setuptools.package-dir]` maps the same names to
the same folders, so that builds and runs do not depend on the links. Nothing else lives here.
"""
