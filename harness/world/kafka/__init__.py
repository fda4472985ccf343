"""A Kafka broker for jobs that read a topic: its jars in the cache, and the process of one run."""
