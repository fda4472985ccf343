# MySQL from Debian's packages, with the data folder baked in, so that a container is ready in about a second.
# The base has no groupadd and no /var/lib/mysql-files; the legacy builder knows no heredocs and no COPY --chmod.
ARG BASE
FROM ${BASE}
RUN echo 'mysql:x:999:' >>/etc/group \
 && echo 'mysql:x:999:999:MySQL:/var/lib/mysql:/bin/false' >>/etc/passwd \
 && rm -rf /var/lib/mysql /etc/mysql/conf.d /etc/mysql/mysql.conf.d \
 && mkdir -p /var/lib/mysql /var/lib/mysql-files /run/mysqld \
 && chown mysql:mysql /var/lib/mysql /var/lib/mysql-files /run/mysqld \
 && mysqld --no-defaults --initialize-insecure --user=mysql --datadir=/var/lib/mysql --innodb-redo-log-capacity=16777216 \
 && rm -f /var/lib/mysql/auto.cnf
COPY mysql-entrypoint.sh /usr/local/bin/mysql-entrypoint
ENTRYPOINT ["/bin/sh", "/usr/local/bin/mysql-entrypoint"]
CMD ["mysqld"]
EXPOSE 3306
