"""Why an anomaly is a contradiction, which guarantee still stands, how long recovery took: words for a judgement."""
