"""Level `spark`: the operator runs inside PySpark tasks. No other package imports pyspark."""
