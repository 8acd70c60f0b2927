#!/bin/sh
# Backup and restore of a PostgreSQL ledger. docs/operations.md, "Backup and restore", says when and what else to do.
#
#   MEMLINE_LEDGER_URL=postgresql://… ops/backup/postgres.sh backup FILE     writes a new FILE (mode 0600), checks that it can be read
#   MEMLINE_LEDGER_URL=postgresql://… ops/backup/postgres.sh restore FILE    into the database of the URL, which must be empty
#
# pg_dump and pg_restore have to be of the server's major version or a newer one.
set -eu
umask 077

usage() {
    sed -n 's/^# \{0,1\}//p' "$0" | sed -n '2,6p' >&2
    exit 2
}

[ $# -eq 2 ] || usage
file=$2
url=${MEMLINE_LEDGER_URL:?is not set: name the ledger, postgresql://user@host/database}
# SQLAlchemy's URLs may name a driver, which PostgreSQL's own tools do not know
url=$(printf '%s' "$url" | sed 's|^postgres\(ql\)\{0,1\}+[a-z0-9]*://|postgresql://|')
case $url in
postgresql://* | postgres://*) ;;
*)
    echo "MEMLINE_LEDGER_URL names no PostgreSQL database. A SQLite ledger: memline backup, memline restore." >&2
    exit 1
    ;;
esac

# a password goes by the environment: arguments are there for every user of the machine to read
if printf '%s' "$url" | grep -q '^[a-z]*://[^/@]*:[^/@]*@'; then
    encoded=$(printf '%s' "$url" | sed 's|^[a-z]*://[^/:@]*:\([^/@]*\)@.*|\1|')
    PGPASSWORD=$(printf '%s' "$encoded" | python3 -c 'import sys, urllib.parse; sys.stdout.write(urllib.parse.unquote(sys.stdin.read()))')
    export PGPASSWORD
    url=$(printf '%s' "$url" | sed 's|^\([a-z]*://[^/:@]*\):[^/@]*@|\1@|')
fi

case $1 in
backup)
    [ ! -e "$file" ] || { echo "$file is there already: a backup overwrites nothing." >&2; exit 1; }
    part=$file.part
    trap 'rm -f "$part"' EXIT
    # one snapshot: writers go on beside it
    pg_dump --format=custom --no-owner --no-privileges --file="$part" "$url"
    pg_restore --list "$part" | grep -q 'TABLE DATA .* memories ' || { echo "The dump holds no ledger." >&2; exit 1; }
    ln "$part" "$file"  # unlike mv it overwrites nothing
    sync "$file" 2>/dev/null || sync
    echo "backed up: $file ($(wc -c <"$file" | tr -d ' ') bytes). Not in it, on purpose: tombstones.jsonl and the erase key."
    ;;
restore)
    [ -r "$file" ] || { echo "There is no backup at $file." >&2; exit 1; }
    tables=$(psql --no-psqlrc --tuples-only --no-align --command \
        "SELECT count(*) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')" "$url")
    [ "$tables" = 0 ] || {
        echo "The database has $tables tables: rename it and make an empty one, then try again. Nothing was changed." >&2
        exit 1
    }
    # all of it or nothing
    pg_restore --exit-on-error --single-transaction --no-owner --no-privileges --dbname="$url" "$file"
    psql --no-psqlrc --quiet --command 'ANALYZE' "$url"
    echo "restored. Before anything is served: memline restore (replays the tombstones), then workers, memline reconcile, memline verify."
    ;;
*) usage ;;
esac
