"""Level `spark`: the operator inside PySpark tasks; the only package that imports pyspark."""
