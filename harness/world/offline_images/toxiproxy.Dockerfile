# Toxiproxy, built from its Go module: one static program, nothing else.
FROM scratch
COPY toxiproxy-server /toxiproxy
ENTRYPOINT ["/toxiproxy"]
CMD ["-host=0.0.0.0"]
EXPOSE 8474
