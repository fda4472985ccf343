# Starts MySQL on the baked data folder, with the users and the database that the environment names, by the
# variables of the published image. One start, no temporary server: the statements run before any port is open,
# so nobody ever meets a half-made server. They can be repeated, so a restarted container needs no marker.
set -eu

quoted() { printf "'%s'" "$(printf '%s' "$1" | sed "s/[\\\\']/\\\\&/g")"; }

case "${1:-mysqld}" in
    mysqld) [ $# -eq 0 ] || shift ;;
    -*) ;;
    *) exec "$@" ;;
esac
if [ -z "${MYSQL_ROOT_PASSWORD:-}" ]; then
    echo "MYSQL_ROOT_PASSWORD is not set: give root a password" >&2
    exit 1
fi

statements=/run/mysqld/users.sql
umask 077
{
    for host in localhost "${MYSQL_ROOT_HOST:-%}"; do
        root="'root'@$(quoted "$host")"
        echo "CREATE USER IF NOT EXISTS $root;"
        echo "ALTER USER $root IDENTIFIED BY $(quoted "$MYSQL_ROOT_PASSWORD");"
        echo "GRANT ALL ON *.* TO $root WITH GRANT OPTION;"
    done
    if [ -n "${MYSQL_DATABASE:-}" ]; then
        echo "CREATE DATABASE IF NOT EXISTS \`$MYSQL_DATABASE\`;"
    fi
    if [ -n "${MYSQL_USER:-}" ]; then
        user="$(quoted "$MYSQL_USER")@'%'"
        echo "CREATE USER IF NOT EXISTS $user;"
        echo "ALTER USER $user IDENTIFIED BY $(quoted "${MYSQL_PASSWORD:-}");"
        if [ -n "${MYSQL_DATABASE:-}" ]; then
            echo "GRANT ALL ON \`$MYSQL_DATABASE\`.* TO $user;"
        fi
    fi
} >"$statements"
chown mysql:mysql "$statements"
unset MYSQL_ROOT_PASSWORD MYSQL_PASSWORD

# Our options last: theirs may not move the data.
exec mysqld --no-defaults "$@" --user=mysql --datadir=/var/lib/mysql --socket=/run/mysqld/mysqld.sock \
    --pid-file=/run/mysqld/mysqld.pid --init-file="$statements"
