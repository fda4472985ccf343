"""Pulls the images of the containers world, or builds them: MySQL from Debian's packages, Toxiproxy from its Go module.

Invariant: an image carries a digest of its recipe as a label, and is rebuilt exactly when the recipe has changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.system.child import run_to_end
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.world.containers import find_engine
from harness.world.containers.engine import OFFLINE_MYSQL, OFFLINE_TOXIPROXY, Engine, choose_images
from harness.world.proxy_program import TOXIPROXY_VERSION, build_proxy_program, built_proxy_program
from harness.world.setup.provision import Provision, ProvisionStep, timed_step

RECIPES = Path(__file__).parent
RECIPE_LABEL = "floodmark.recipe"
BASE = "floodmark/debian-mysql:base"
SUITE = "sid"
"""The only Debian suite with MySQL."""
PACKAGES_LIMIT_S = 900.0
DEBIAN_OPTIONS = (
    # A mirror's index may be past its expiry date; signatures are checked all the same.
    '--aptopt=Acquire::Check-Valid-Until "false"',
    '--aptopt=Acquire::Languages "none"',
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
)
MYSQL_RECIPE = ("mysql.Dockerfile", "mysql-entrypoint.sh")
TOXIPROXY_RECIPE = ("toxiproxy.Dockerfile",)


def is_current(engine: Engine, image: str) -> bool:
    """Whether the image exists and was built by the current recipe."""
    recipe = MYSQL_RECIPE if image == OFFLINE_MYSQL else TOXIPROXY_RECIPE
    return engine.label_of(image, RECIPE_LABEL) == _digest(recipe)


def build_mysql_image(engine: Engine, task: Provision) -> None:
    """Build the MySQL image with an initialised data folder. Needs root, because mmdebstrap makes a system's files."""
    fix = "run it as root on Debian (`apt-get install mmdebstrap`), pull the images, or use --world local"
    if shutil.which("mmdebstrap", path=task.settings.path) is None:
        raise WorldError("the MySQL image cannot be built: there is no mmdebstrap here", fix=fix)
    if os.geteuid() != 0:
        raise WorldError(
            "the MySQL image cannot be built: mmdebstrap needs root to make a system's files", fix=fix
        )
    scratch = task.ledger.folder
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        task.say(f"collecting MySQL and what it needs from Debian {SUITE}")
        packages = folder / "packages.tar"
        run_to_end(
            [
                "mmdebstrap",
                "--variant=essential",
                "--include=mysql-server-core",
                *DEBIAN_OPTIONS,
                SUITE,
                str(packages),  # no mirror named: mmdebstrap takes its default
            ],
            what=f"collecting Debian {SUITE} packages for the MySQL image",
            limit_s=PACKAGES_LIMIT_S,
            fix=f"see that Debian's mirrors can be reached and that {scratch} has 1 GB free",
        )
        task.say("baking the MySQL image")
        engine.import_image(packages, BASE)
        packages.unlink()
        _build(engine, folder, image=OFFLINE_MYSQL, recipe=MYSQL_RECIPE, arguments={"BASE": BASE})


def _build(
    engine: Engine, folder: Path, *, image: str, recipe: tuple[str, ...], arguments: Mapping[str, str]
) -> None:
    for name in recipe:
        shutil.copy(RECIPES / name, folder / name)
    engine.build(
        folder, dockerfile=recipe[0], image=image, arguments=arguments, labels={RECIPE_LABEL: _digest(recipe)}
    )


def _digest(recipe: tuple[str, ...]) -> str:
    digest = hashlib.sha256(" ".join([SUITE, *DEBIAN_OPTIONS, TOXIPROXY_VERSION]).encode())
    for name in recipe:
        digest.update((RECIPES / name).read_bytes())
    return digest.hexdigest()[:16]


def provide_images(task: Provision) -> Iterator[ProvisionStep]:
    """Images for `--world containers`: those that exist, else pulled."""
    begun_us = monotonic_us()
    engine = find_engine(task.settings)
    yield timed_step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    images = choose_images(engine, task.settings, proxy="auto", offline=False, say=task.say)
    proxy = images.toxiproxy or "our own proxy"
    yield timed_step("images", f"{images.mysql} and {proxy}; {images.why}", begun_us)


def provide_offline_images(task: Provision) -> Iterator[ProvisionStep]:
    """Build the images from package sources; Toxiproxy's only where Go can build it."""
    begun_us = monotonic_us()
    engine = find_engine(task.settings)
    yield timed_step("engine", f"{engine.title} answers", begun_us)
    begun_us = monotonic_us()
    yield timed_step(OFFLINE_TOXIPROXY, _toxiproxy_image(task, engine), begun_us)
    begun_us = monotonic_us()
    if is_current(engine, OFFLINE_MYSQL) and not task.rebuild:
        outcome = "already there"
    else:
        build_mysql_image(engine, task)
        outcome = "built"
    yield timed_step(OFFLINE_MYSQL, outcome, begun_us)


def _toxiproxy_image(task: Provision, engine: Engine) -> str:
    if is_current(engine, OFFLINE_TOXIPROXY) and not task.rebuild:
        return "already there"
    # Not the program on the PATH, which may need libraries that the empty image lacks.
    program = built_proxy_program(task.settings)
    if task.rebuild or not program.exists():
        try:
            program = build_proxy_program(task.settings, scratch=task.ledger.folder, say=task.say)
        except WorldError as lacking:
            return f"left out, our own proxy serves; {lacking.what}"
    with tempfile.TemporaryDirectory(dir=task.ledger.folder) as name:  # it holds the static program only
        shutil.copy2(program, Path(name) / program.name)
        _build(engine, Path(name), image=OFFLINE_TOXIPROXY, recipe=TOXIPROXY_RECIPE, arguments={})
    return "built"
