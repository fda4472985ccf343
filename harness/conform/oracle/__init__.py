"""The oracle: a Java program around Flink's own async operator, which speaks the operator protocol.

`README.md` describes it; `provide` gives its command line and sets it up (`floodmark setup --oracle`).
"""
