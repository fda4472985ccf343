"""The real Flink as oracle: a Java program of ours around the genuine operator that speaks the operator protocol.

`README.md` tells what it is; `provide` gives its command line and gets it ready (`floodmark setup --oracle`).
"""
