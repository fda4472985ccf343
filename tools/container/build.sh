#!/bin/sh
# Builds the image `floodmark` from Debian's packages, Python wheels and Toxiproxy's Go module; no image registry is asked.
# Needs root (mmdebstrap makes a system's files), docker, go, python3 with pip, and 2 GB of disk. The image needs no network.
#
#   tools/container/build.sh [IMAGE]           default: floodmark:local
set -eu

image=${1:-floodmark:local}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
base=floodmark/debian-python-mysql:base
suite=sid # the only Debian suite with MySQL
toxiproxy=$(sed -n 's/^TOXIPROXY_VERSION = "\(.*\)"/\1/p' "$root/harness/world/proxy_program.py")

for program in mmdebstrap docker go python3; do
    command -v "$program" >/dev/null || { echo "build.sh: there is no $program on the PATH" >&2; exit 11; }
done
[ "$(id -u)" -eq 0 ] || { echo "build.sh: run it as root: mmdebstrap makes a system's files" >&2; exit 11; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

echo "base     Debian $suite with Python and MySQL"
mmdebstrap --quiet --variant=essential --include=mysql-server-core,python3,python3-venv,tini \
    --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='Acquire::Languages "none"' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' "$suite" "$scratch/base.tar"
python=$(tar -tvf "$scratch/base.tar" ./usr/bin/python3 | sed 's/.*python3 -> python//')
docker import "$scratch/base.tar" "$base" >/dev/null
rm "$scratch/base.tar"

echo "wheels   Floodmark and what it needs, for Python $python"
mkdir "$scratch/wheels"
cp "$root/constraints.txt" "$scratch/wheels/"
python3 -m pip wheel --quiet --no-deps --wheel-dir "$scratch/wheels" "$root"
wheel=$(ls "$scratch/wheels"/floodmark-*.whl)
machine=$(uname -m)
python3 -m pip download --quiet --dest "$scratch/wheels" --only-binary :all: --python-version "$python" \
    --platform "manylinux_2_28_$machine" --platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" \
    --constraint "$root/constraints.txt" "floodmark[mysql] @ file://$wheel"

echo "proxy    Toxiproxy $toxiproxy from its Go module"
module=github.com/Shopify/toxiproxy/v2
CGO_ENABLED=0 GOBIN="$scratch" GOFLAGS=-modcacherw go install -ldflags "-s -w -X $module.Version=$toxiproxy" \
    "$module/cmd/server@v$toxiproxy"
mv "$scratch/server" "$scratch/toxiproxy-server"

echo "image    $image"
cp "$here/floodmark.Dockerfile" "$scratch/Dockerfile"
DOCKER_BUILDKIT=0 docker build --quiet --build-arg BASE="$base" --tag "$image" "$scratch" >/dev/null
docker image inspect --format "made     $image, {{.Size}} bytes" "$image"
echo "next     docker run --rm --network none $image demo"
