# The command line with MySQL, Toxiproxy and our own proxy, for a machine without a network: `tools/container/build.sh`.
# The base holds Debian's packages; the legacy builder knows no heredocs and no COPY --chmod, and nothing here needs a network.
ARG BASE
FROM ${BASE}
COPY wheels /wheels
COPY toxiproxy-server /usr/local/bin/toxiproxy-server
RUN echo 'floodmark:x:1000:' >>/etc/group \
 && echo 'floodmark:x:1000:1000:Floodmark:/home/floodmark:/bin/sh' >>/etc/passwd \
 && mkdir -p /home/floodmark /work /var/cache/floodmark /var/lib/mysql-files \
 && python3 -m venv /opt/floodmark \
 && /opt/floodmark/bin/python -m pip install --quiet --no-index --find-links=/wheels --constraint=/wheels/constraints.txt 'floodmark[mysql]' \
 && rm -rf /wheels \
 && chmod 1777 /home/floodmark /work /var/cache/floodmark
ENV PATH=/opt/floodmark/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/home/floodmark \
    FLOODMARK_CACHE=/var/cache/floodmark \
    FLOODMARK_LEVEL=live \
    FLOODMARK_WORLD=local
# Not root, whom mysqld refuses to serve.
USER 1000:1000
WORKDIR /work
# tini ends with the command, and reaps what killed workers leave.
ENTRYPOINT ["tini", "--", "floodmark"]
CMD ["--help"]
